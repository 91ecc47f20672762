-- How many were rejected of which entities: $1 to $6 as in rejected_chosen.sql.
select count(*) as rejected, count(distinct (j.lifecycle, j.id)) as entities
from perdure.rejected j
left join perdure.ident i on i.lifecycle = j.lifecycle and i.id = j.id
where ($1::text is null or j.lifecycle = $1) and ($2::text is null or position($2 in j.reason) > 0)
    and ($3::bigint is null or j.seq = $3) and ($4::timestamptz is null or j.rejected_at <= $4)
    and ($5::text[] is null or exists (
        select from unnest($5::text[], $6::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
