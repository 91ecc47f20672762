-- What was rejected: $1 lifecycle, $2 a part of the reason, $3 its number, $4 rejected by then, $5 and $6 as in overview.sql. Null = no
-- such filter. Which page of it, or how many, comes with the caller.
select j.* from perdure.rejected j
where ($1::text is null or j.lifecycle = $1) and ($2::text is null or position($2 in j.reason) > 0)
    and ($3::bigint is null or j.seq = $3) and ($4::timestamptz is null or j.rejected_at <= $4)
    and ($5::text[] is null or exists (
        select from unnest($5::text[], $6::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = (
            select i.tenant from perdure.ident i where i.lifecycle = j.lifecycle and i.id = j.id))))
