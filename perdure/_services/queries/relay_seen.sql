select perdure.relay_seen($1, $2, $3)
