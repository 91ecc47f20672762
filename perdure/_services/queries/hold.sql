-- Lets the rows behind another row of their entity wait until its next try: $1 lifecycle, $2 id, $3 the time of that.
update perdure.outbox set not_before = $3 where lifecycle = $1 and id = $2 and not_before <= now()
