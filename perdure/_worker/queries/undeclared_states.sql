-- States of open entities of the lifecycle $1 that are not among $2, each with one entity as an example. It steps from one state
-- to the next by the index.
with recursive seen as (
    (select state, id from perdure.entity where lifecycle = $1 order by state limit 1)
    union all
    select next.state, next.id from seen cross join lateral (
        select x.state, x.id from perdure.entity x where x.lifecycle = $1 and x.state > seen.state order by x.state limit 1) next
)
select state, id from seen where state <> all ($2::text[])
