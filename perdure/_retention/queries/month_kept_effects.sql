select key from perdure.kept_effect where month = $1 order by key
