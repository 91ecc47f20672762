-- What applications made for a kind of roles, by the first word of its comment: tables and views to read, functions to call.
select quote_ident(n.nspname) as schema, 'execute on function ' || p.oid::regprocedure as may
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where split_part(obj_description(p.oid, 'pg_proc'), ' ', 1) = any ($1::text[])
union all
select quote_ident(n.nspname), format('select on %I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm') and split_part(obj_description(c.oid, 'pg_class'), ' ', 1) = any ($1::text[])
order by 2
