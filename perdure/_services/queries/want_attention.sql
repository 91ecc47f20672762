-- Shows that a row was rejected. What the run itself needs a person for stands first.
update perdure.entity set attention = $3
where lifecycle = $1 and id = $2 and (attention is null or attention ~ '^(a message was )?rejected: ')
