select exists (
    select from perdure.app_column where lifecycle = $1 and app_table = $2 and key_column = $3 and state_column = $4)
