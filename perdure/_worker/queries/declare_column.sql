-- Declares the column that shows the states of a lifecycle: $1 lifecycle, $2 table, $3 key column, $4 state column.
insert into perdure.app_column as c (lifecycle, app_table, key_column, state_column) values ($1, $2, $3, $4)
on conflict (lifecycle) do update set app_table = $2, key_column = $3, state_column = $4
    where (c.app_table, c.key_column, c.state_column) <> ($2, $3, $4)
