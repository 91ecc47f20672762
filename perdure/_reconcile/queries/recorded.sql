-- The record of each of the entities $1, $2 (a lifecycle, ids): `generation` is null without one. `since` is set if the entity
-- ended after $3. `lost`: it is open, and its row is missing, or its run has made the row anew, which holds no input until the run
-- has mirrored its state again. A row that still has none then has the input null. The workflow of `lost` has its input.
select k.id, i.generation, i.final, f.finished_at as since,
    i.generation is not null and i.final is null and (e.id is null or e.input is null and e.created_at < to_timestamp(e.epoch / 1e6)
        and not exists (
            select from perdure.transition t
            where t.lifecycle = $1 and t.id = k.id and t.why = 'mirrored again' and t.at >= to_timestamp(e.epoch / 1e6))) as lost
from unnest($2::text[]) k(id)
left join lateral (
    select x.generation, x.final from perdure.ident x where x.lifecycle = $1 and x.id = k.id offset 0
) i on true
left join lateral (
    select x.id, x.input, x.created_at, x.epoch from perdure.entity x
    where i.final is null and x.lifecycle = $1 and x.id = k.id offset 0
) e on true
left join lateral (
    select x.finished_at from perdure.finished x
    where i.final is not null and x.lifecycle = $1 and x.id = k.id and x.generation = i.generation and x.finished_at >= $3
    limit 1
) f on true
