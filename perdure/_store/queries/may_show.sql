-- Whether the role of this session may update the state column $3 of a table $1 by its key column $2.
select has_column_privilege($1::text::regclass, $2, 'select') and has_column_privilege($1::text::regclass, $3, 'update')
    and has_function_privilege('perdure.columns_due(int, boolean)', 'execute')
