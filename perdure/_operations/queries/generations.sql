-- The generations of some entities: $1 lifecycles and $2 ids.
select lifecycle, id, generation from perdure.ident where (lifecycle, id) in (select * from unnest($1::text[], $2::text[]))
