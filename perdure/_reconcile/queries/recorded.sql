-- The record of each of the entities $1, $2 (a lifecycle, ids): `generation` is null without one. `since` is set if the entity
-- ended after $3.
select k.id, i.generation, i.final, f.finished_at as since
from unnest($2::text[]) k(id)
left join lateral (
    select x.generation, x.final from perdure.ident x where x.lifecycle = $1 and x.id = k.id offset 0
) i on true
left join lateral (
    select x.finished_at from perdure.finished x
    where i.final is not null and x.lifecycle = $1 and x.id = k.id and x.generation = i.generation and x.finished_at >= $3
    limit 1
) f on true
