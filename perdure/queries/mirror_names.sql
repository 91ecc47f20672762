-- The names of a table $1 and of its columns $2 (key) and $3 (state), quoted; no row where one of them is not there.
select quote_ident(n.nspname) as schema, c.oid::regclass::text as name, quote_ident($2) as key, quote_ident($3) as state
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass($1)
    and (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and a.attname in ($2, $3)) = 2
