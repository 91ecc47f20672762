-- Lets the rows behind another row of their entity wait: $1 lifecycle, $2 id, $3 the time of its next try; null, after it was
-- rejected, is in half a minute.
update perdure.outbox set not_before = coalesce($3, clock_timestamp() + interval '30 s')
where lifecycle = $1 and id = $2 and not_before <= now()
