-- Starts these entities again, and returns those for which that was possible: $1 lifecycles, $2 ids, $3 generations, $4 versions,
-- $5 by whom, $6 why. It goes in the order of their keys, like every session that locks several.
select k.lifecycle, k.id
from (select * from unnest($1::text[], $2::text[], $3::int[], $4::bigint[]) x(lifecycle, id, generation, version)
    order by x.lifecycle collate "C", x.id collate "C") k
where perdure.start_again(k.lifecycle, k.id, k.generation, k.version, $5, $6)
