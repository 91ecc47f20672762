-- The entity of the effect with the key $1.
select f.lifecycle, f.id, i.tenant, coalesce(e.state, i.final) as state, true as exact
from perdure.effect f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id
left join perdure.entity e on e.lifecycle = f.lifecycle and e.id = f.id
where f.key = $1
