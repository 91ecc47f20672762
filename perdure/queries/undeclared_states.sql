-- States that open lifecycles named $1 are in and that are none of $2. It steps from one state to the next by the index.
with recursive seen as (
    (select state from perdure.entity where lifecycle = $1 order by state limit 1)
    union all
    select (select x.state from perdure.entity x where x.lifecycle = $1 and x.state > seen.state order by x.state limit 1)
    from seen where seen.state is not null
)
select state from seen where state <> all ($2::text[])
