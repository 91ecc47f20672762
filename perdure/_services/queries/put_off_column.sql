select perdure.put_off_column($1, $2, $3)
