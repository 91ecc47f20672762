-- All lifecycles that an entity ever had. It steps from one name to the next by the index, whatever the number of entities.
with recursive seen as (
    (select lifecycle from perdure.ident order by lifecycle limit 1)
    union all
    select (select x.lifecycle from perdure.ident x where x.lifecycle > seen.lifecycle order by x.lifecycle limit 1)
    from seen where seen.lifecycle is not null
)
select lifecycle from seen where lifecycle is not null
