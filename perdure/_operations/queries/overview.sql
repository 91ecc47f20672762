-- Open entities by lifecycle and state: their number, the oldest in the state, how many need a person, for how many of these
-- an effect is parked, and how many are in each condition that the database alone can determine (as in selected.sql). It does not
-- read finished entities. In a copied database, those that are left to its original are open, and need nobody here. $1 and $2:
-- pairs of lifecycle and tenant, one of which must match; null = all; null inside a pair = any. $3: `ABOUT_DOUBT`.
with busy as (
    select lifecycle, id, generation, bool_or(deadline >= now()) as held
    from perdure.effect where status = 'attempting'
    group by lifecycle, id, generation
), doubted as (
    select distinct lifecycle, id, generation from perdure.effect where status = 'in_doubt'
), due as (
    select lifecycle, id, bool_or(kind = 'start') as starts
    from perdure.outbox where due_at is null or due_at <= now()
    group by lifecycle, id
)
select e.lifecycle, e.state, count(*) as open,
    greatest(extract(epoch from clock_timestamp() - min(e.since)), 0)::float as oldest_seconds,
    count(*) filter (where e.stuck_at < clock_timestamp() and e.left_to is null) as stuck,
    count(*) filter (where e.attention is not null and e.left_to is null) as attention,
    count(*) filter (where e.attention ~ $3 and e.left_to is null and doubted.id is not null) as parked,
    count(*) filter (where due.starts or (busy.held is null and due.id is not null)) as not_picked_up,
    count(*) filter (where busy.held and due.starts is not true) as held,
    count(*) filter (where not busy.held and due.starts is not true) as holder_gone,
    count(*) filter (where busy.held is null and due.id is null) as waits
from perdure.entity e
left join busy on busy.lifecycle = e.lifecycle and busy.id = e.id and busy.generation = e.generation
left join doubted on doubted.lifecycle = e.lifecycle and doubted.id = e.id and doubted.generation = e.generation
left join due on due.lifecycle = e.lifecycle and due.id = e.id
where $1::text[] is null or exists (
    select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = e.lifecycle) and (r.tenant is null or r.tenant = e.tenant))
group by e.lifecycle, e.state
order by e.lifecycle, e.state
