-- Open lifecycles by lifecycle and state, the longest in it, and how many want a person.
select
    lifecycle, state, count(*) as open,
    greatest(extract(epoch from clock_timestamp() - min(since)), 0)::float as oldest_seconds,
    count(*) filter (where stuck_at < clock_timestamp()) as stuck,
    count(*) filter (where attention is not null) as attention
from perdure.entity
group by lifecycle, state
order by lifecycle, state
