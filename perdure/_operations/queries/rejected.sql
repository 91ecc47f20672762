-- What was rejected, with what rules out the acts on it: $1 lifecycle, $2 a part of the reason, $3 its number, $4 rejected by then, $5
-- and $6 as in overview.sql. Null = no such filter. Which page of it, or how many, comes with the caller.
select j.seq, j.lifecycle, j.id, j.generation, j.kind, j.message_id, j.reason, j.rejected_at, i.tenant,
    (i.id is null or i.generation <> j.generation or i.final is not null) as is_over,
    j.kind = 'start' and exists (
        select from perdure.entity e where e.lifecycle = i.lifecycle and e.id = i.id and e.workflow_id is not null) as runs,
    (select f.key from perdure.effect f where j.kind = 'start' and f.lifecycle = i.lifecycle and f.id = i.id
        and f.generation = j.generation limit 1) as attempted,
    j.kind = 'start' and j.generation > 0 and not exists (
        select from perdure.finished x where x.lifecycle = i.lifecycle and x.id = i.id and x.generation = j.generation - 1)
        as past_is_gone
from perdure.rejected j
left join perdure.ident i on i.lifecycle = j.lifecycle and i.id = j.id
where ($1::text is null or j.lifecycle = $1) and ($2::text is null or position($2 in j.reason) > 0)
    and ($3::bigint is null or j.seq = $3) and ($4::timestamptz is null or j.rejected_at <= $4)
    and ($5::text[] is null or exists (
        select from unnest($5::text[], $6::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
