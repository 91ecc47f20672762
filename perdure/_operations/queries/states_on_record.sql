-- The states of open entities of the lifecycles $1, and of some of the finished ones. It reads in the order of the index, so that
-- it does not scan the whole table for a rare lifecycle.
with recursive names as (
    select unnest($1::text[]) as lifecycle
), seen as (
    select n.lifecycle, (select x.state from perdure.entity x where x.lifecycle = n.lifecycle order by x.state limit 1) as state
    from names n
    union all
    select s.lifecycle, (
        select x.state from perdure.entity x where x.lifecycle = s.lifecycle and x.state > s.state order by x.state limit 1)
    from seen s where s.state is not null
)
select state from seen where state is not null
union
select t.state from names n cross join lateral (
    select x.state from perdure.transition x where x.lifecycle = n.lifecycle order by x.id limit 2000
) t
