-- What $3 has done to an entity since $4: $1 lifecycle, $2 id.
select why from perdure.transition where lifecycle = $1 and id = $2 and made_by = $3 and at >= $4 and why is not null
