update perdure.entity set attention = $1, left_to = $1
