-- A page of open entities in the order of their keys: $1 lifecycles, after the key $2, $3, up to $4. It skips the same entities as
-- watched_closed.sql. Entities that were written within the last $5 have `young`, because Temporal's lists lag behind.
select
    e.lifecycle, e.id, e.generation, e.state, e.since, e.stuck_at, e.attention, e.created_at, i.version,
    greatest(e.created_at, to_timestamp(i.version / 1e6)) as written_at, null::text as input, null::text as doubts,
    greatest(e.created_at, to_timestamp(i.version / 1e6)) > clock_timestamp() - $5::interval as young
from perdure.entity e
join perdure.ident i on i.lifecycle = e.lifecycle and i.id = e.id and i.generation = e.generation and i.final is null
where (e.lifecycle, e.id) > ($2, $3) and e.lifecycle = any($1)
    and e.left_to is null and (e.attention like 'its workflow %') is not true
    and not exists (select from perdure.outbox o where o.lifecycle = e.lifecycle and o.id = e.id and o.kind = 'start')
    and not exists (
        select from perdure.rejected r
        where r.lifecycle = e.lifecycle and r.id = e.id and r.generation = e.generation and r.kind = 'start')
order by e.lifecycle, e.id
limit $4
