-- The effects of some entities, of their present generation: $1 lifecycles and $2 ids.
select f.lifecycle, f.id, f.key, f.effect, f.status from perdure.effect f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id and i.generation = f.generation
where (f.lifecycle, f.id) in (select * from unnest($1::text[], $2::text[]))
order by f.first_at, f.key
