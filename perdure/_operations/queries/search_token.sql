-- The entities of the effects in doubt whose key has the token $1; see `Key.token`.
select f.lifecycle, f.id, i.tenant, coalesce(e.state, i.final) as state, true as exact
from perdure.effect f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id
left join perdure.entity e on e.lifecycle = f.lifecycle and e.id = f.id
where f.status in ('attempting', 'in_doubt') and left(encode(sha256(convert_to(f.key, 'UTF8')), 'hex'), 40) = $1
