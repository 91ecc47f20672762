-- Open entities by state: $1 lifecycles. It takes one pass over `entity`, which has only open ones. In a copied database, those that
-- are left to the original are open, and nobody can do anything about them here.
select
    lifecycle, state, count(*) as open,
    greatest(extract(epoch from clock_timestamp() - min(since)), 0)::float as oldest,
    count(*) filter (where stuck_at < clock_timestamp() and left_to is null) as stuck,
    count(*) filter (where attention is not null and left_to is null) as attention
from perdure.entity
where lifecycle = any($1)
group by lifecycle, state
