-- Entities among these (lifecycles $1, ids $2) that are open on record, without a finding that they lost their workflow. It skips
-- entities with a start in the outbox or in `rejected`, and those that a copied database leaves to its original.
select
    e.lifecycle, e.id, e.generation, e.state, e.since, e.stuck_at, e.attention, e.created_at, i.version,
    greatest(e.created_at, to_timestamp(i.version / 1e6)) as written_at, null::text as input, null::text as doubts
from unnest($1::text[], $2::text[]) k(lifecycle, id)
join perdure.entity e on e.lifecycle = k.lifecycle and e.id = k.id
join perdure.ident i on i.lifecycle = e.lifecycle and i.id = e.id and i.generation = e.generation and i.final is null
where e.left_to is null and (e.attention like 'its workflow %') is not true
    and not exists (select from perdure.outbox o where o.lifecycle = e.lifecycle and o.id = e.id and o.kind = 'start')
    and not exists (
        select from perdure.rejected r
        where r.lifecycle = e.lifecycle and r.id = e.id and r.generation = e.generation and r.kind = 'start')
