-- Records that the code fails for the entity $2 of the lifecycle $1, generation $3, with the reason $4.
update perdure.entity set attention = 'its code fails: ' || $4
where lifecycle = $1 and id = $2 and generation = $3 and (attention is null or attention like 'its code fails: %')
