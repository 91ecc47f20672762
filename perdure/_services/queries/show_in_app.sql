select perdure.show_in_app($1, $2)
