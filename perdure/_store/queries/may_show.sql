-- Whether the role of this session may bring the state column $3 of a table $1 up to date, by its key column $2.
select has_column_privilege($1::text::regclass, $2, 'select') and has_column_privilege($1::text::regclass, $3, 'update')
    and has_function_privilege('perdure.columns_due(int, boolean)', 'execute')
