-- What is on record of an entity, the newest first: $1 lifecycle, $2 id, $3 at most so many. Also what outlived its month.
select generation, version, state, attention, why, made_by, session_role, at from perdure.transition where lifecycle = $1 and id = $2
union
select generation, version, state, attention, why, made_by, session_role, at from perdure.carried_transition where lifecycle = $1 and id = $2
order by generation desc, version desc, at desc
limit $3
