-- What waits for an entity whose rows can't be dealt with is looked at later: $1 lifecycle, $2 id, $3 what went wrong.
update perdure.outbox
set tries = tries + 1, error = $3, not_before = clock_timestamp() + interval '30 s'
where lifecycle = $1 and id = $2 and not_before <= clock_timestamp()
