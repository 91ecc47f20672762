-- The full names of a table $1 of the app and of its columns $2 (key) and $3 (state), and its owner; no row if one does not exist.
select x.app_table, quote_ident($2) as key, quote_ident($3) as state, quote_ident(n.nspname) as schema,
    quote_ident(pg_get_userbyid(c.relowner)) as owner, pg_get_userbyid(c.relowner) = current_user as own
from (select perdure.app_table($1) as app_table) x
    join pg_class c on c.oid = to_regclass(x.app_table)
    join pg_namespace n on n.oid = c.relnamespace
where (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and a.attname in ($2, $3)) = 2
