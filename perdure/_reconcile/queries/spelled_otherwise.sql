-- Those of the ids $2 that are UUIDs of which the lifecycle $1 has an entity under another spelling: in capitals, or without hyphens.
select x.id, min(i.id) as other
from unnest($2::text[]) x(id)
cross join lateral (select replace(x.id, '-', '') as digits) d
join perdure.ident i on i.lifecycle = $1
    and i.id = any(array[upper(x.id) collate "C", d.digits collate "C", upper(d.digits) collate "C"])
where x.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' and i.id <> x.id collate "C"
group by x.id
