-- What the fence has on record of an entity in one round: $1 lifecycle, $2 id, $3 round.
select key, effect, status, attempts, first_at, deadline, receipt, why, settled_by
from perdure.effect
where lifecycle = $1 and id = $2 and round = $3
order by first_at, key
