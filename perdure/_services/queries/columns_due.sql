select app_table, lifecycle, id from perdure.columns_due($1, true)
