-- Open entities, each with the condition that the database alone can determine. The caller adds filters and an order: with a
-- filter that may be null, PostgreSQL would not use the index once it has a generic plan.
select e.lifecycle, e.id, e.generation, e.state, e.since, e.stuck_at, e.attention, e.tenant, i.version, c.condition,
    extract(epoch from clock_timestamp() - e.since)::float as age
from perdure.entity e
join perdure.ident i on i.lifecycle = e.lifecycle and i.id = e.id
cross join lateral (
    select bool_or(o.kind = 'start') as starts, count(*) > 0 as has_rows
    from perdure.outbox o
    where o.lifecycle = e.lifecycle and o.id = e.id and (o.due_at is null or o.due_at <= now())
) o
cross join lateral (
    select bool_or(f.status = 'attempting' and f.deadline >= now()) as held,
        bool_or(f.status = 'attempting' and f.deadline < now()) as gone,
        bool_or(f.status = 'in_doubt' or f.deadline < now()) as doubt
    from perdure.effect f
    where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation and f.status in ('attempting', 'in_doubt')
) f
cross join lateral (
    select case
        when o.starts then 'not-picked-up'
        when f.held then 'held'
        when f.gone then 'holder-gone'
        when o.has_rows then 'not-picked-up'
        else 'waits'
    end as condition
) c
