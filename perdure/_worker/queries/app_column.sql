-- The full names of a table $1 of the app and of its columns $2 (key) and $3 (state), its owner, whether an update can change
-- the state column, and whether a unique index has the key alone, which PostgreSQL can only make for a plain table; no row if one does not
-- exist.
select x.app_table, quote_ident($2) as key, quote_ident($3) as state, quote_ident(n.nspname) as schema,
    quote_ident(pg_get_userbyid(c.relowner)) as owner, pg_get_userbyid(c.relowner) = current_user as own,
    s.attgenerated = '' and pg_column_is_updatable(c.oid, s.attnum, true) as updatable,
    c.relkind <> 'r' or exists (
        select from pg_index i where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null
            and i.indnkeyatts = 1 and i.indkey[0] = k.attnum) as unique_key
from (select perdure.app_table($1) as app_table) x
    join pg_class c on c.oid = to_regclass(x.app_table)
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute k on k.attrelid = c.oid and k.attnum > 0 and k.attname = $2
    join pg_attribute s on s.attrelid = c.oid and s.attnum > 0 and s.attname = $3 and s.attnum <> k.attnum
