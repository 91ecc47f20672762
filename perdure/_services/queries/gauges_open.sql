-- Open entities by state: $1 lifecycles. It takes one pass over `entity`, which has only open ones.
select
    lifecycle, state, count(*) as open,
    greatest(extract(epoch from clock_timestamp() - min(since)), 0)::float as oldest,
    count(*) filter (where stuck_at < clock_timestamp()) as stuck,
    count(*) filter (where attention is not null) as attention
from perdure.entity
where lifecycle = any($1)
group by lifecycle, state
