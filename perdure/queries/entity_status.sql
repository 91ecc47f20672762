-- Where an entity is: $1 lifecycle, $2 id.
select
    i.round, i.final, coalesce(e.state, i.final) as state, e.since, e.attention, e.tenant,
    exists (
        select from perdure.outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'start'
    ) as waits,
    (
        select reason from perdure.rejected r
        where r.lifecycle = i.lifecycle and r.id = i.id and r.round = i.round
        order by seq desc limit 1
    ) as rejected,
    (
        select finished_at from perdure.finished f
        where f.lifecycle = i.lifecycle and f.id = i.id and f.round = i.round
        order by finished_at desc limit 1
    ) as finished_at
from perdure.ident i left join perdure.entity e using (lifecycle, id)
where i.lifecycle = $1 and i.id = $2
