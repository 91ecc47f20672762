update perdure.entity set attention = $3 where lifecycle = $1 and id = $2
