-- What waits behind another row of its entity is looked at when that one is: $1 lifecycle, $2 id, $3 when.
update perdure.outbox set not_before = $3 where lifecycle = $1 and id = $2 and not_before <= now()
