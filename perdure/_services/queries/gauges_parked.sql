-- Open entities that need a person because of a doubt: $1 lifecycles, $2 `ABOUT_DOUBT`.
select e.lifecycle, count(*) as parked
from perdure.entity e
where e.attention ~ $2 and e.left_to is null and e.lifecycle = any($1) and exists (
    select from perdure.effect f
    where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation and f.status = 'in_doubt')
group by e.lifecycle
