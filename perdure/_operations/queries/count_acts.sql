-- How often somebody has acted on an entity since.
select count(*) from perdure.transition where lifecycle = $1 and id = $2 and made_by = $3 and at >= $4
