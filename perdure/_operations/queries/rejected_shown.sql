-- Rows of `r` as in rejected.sql, with the tenant, and what rules out the acts on each.
select r.seq, r.lifecycle, r.id, r.generation, r.kind, r.message_id, r.reason, r.rejected_at, i.tenant,
    (i.id is null or i.generation <> r.generation or i.final is not null) as is_over,
    r.kind = 'start' and exists (
        select from perdure.entity e where e.lifecycle = i.lifecycle and e.id = i.id and e.workflow_id is not null) as runs,
    (select f.key from perdure.effect f where r.kind = 'start' and f.lifecycle = i.lifecycle and f.id = i.id
        and f.generation = r.generation limit 1) as attempted,
    r.kind = 'start' and r.generation > 0 and not exists (
        select from perdure.finished x where x.lifecycle = i.lifecycle and x.id = i.id and x.generation = r.generation - 1)
        as past_is_gone
from r left join perdure.ident i on i.lifecycle = r.lifecycle and i.id = r.id
order by r.seq
