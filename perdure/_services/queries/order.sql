-- Gives messages their places in the order of delivery: $1 lifecycles, $2 ids, $3 generations, $4 message ids. The caller holds
-- the entities, so no other session does this at the same time.
update perdure.message m set ordinal = last.ordinal + g.place
from (
    select k.*, row_number() over (partition by k.lifecycle, k.id, k.generation order by k.n) as place
    from unnest($1::text[], $2::text[], $3::int[], $4::text[]) with ordinality k(lifecycle, id, generation, message_id, n)
) g
cross join lateral (
    select coalesce(max(x.ordinal), 0) as ordinal from perdure.message x
    where x.lifecycle = g.lifecycle and x.id = g.id and x.generation = g.generation and x.ordinal is not null
) last
where m.lifecycle = g.lifecycle and m.id = g.id and m.generation = g.generation and m.message_id = g.message_id
