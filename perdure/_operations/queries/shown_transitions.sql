-- The transitions of an entity, newest first, including those of dropped months: $1 lifecycle, $2 id, up to $3.
select generation, version, state, attention, why, made_by, session_role, at from perdure.transition where lifecycle = $1 and id = $2
union
select generation, version, state, attention, why, made_by, session_role, at from perdure.carried_transition where lifecycle = $1 and id = $2
order by generation desc, version desc, at desc
limit $3
