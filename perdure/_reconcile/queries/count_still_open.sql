-- How many of these entities are open in the same generation: $1 lifecycles, $2 ids, $3 generations.
select count(*)
from unnest($1::text[], $2::text[], $3::int[]) x(lifecycle, id, generation)
join perdure.entity e using (lifecycle, id, generation)
