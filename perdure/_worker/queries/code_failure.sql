-- The code of the lifecycle $1, entity $2, generation $3 fails: $4.
update perdure.entity set attention = 'its code fails: ' || $4
where lifecycle = $1 and id = $2 and generation = $3 and (attention is null or attention like 'its code fails: %')
