-- Puts off the rows of an entity that cannot be processed: $1 lifecycle, $2 id, $3 the error.
update perdure.outbox
set tries = tries + 1, error = $3, not_before = clock_timestamp() + interval '30 s'
where lifecycle = $1 and id = $2 and not_before <= clock_timestamp()
