-- The rights that the role of this session lacks: $1 an object of table -> rights, for tables that need others than $2; $3 names
-- of functions.
select 'usage on schema perdure' as what from pg_namespace where nspname = 'perdure' and not has_schema_privilege(oid, 'usage')
union all
select needed || ' on perdure.' || quote_ident(c.relname)
from pg_class c
    cross join lateral jsonb_array_elements_text(coalesce($1::jsonb -> c.relname::text, to_jsonb($2::text[]))) needed
where c.relnamespace = to_regnamespace('perdure') and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname !~ '^(finished|transition)_[0-9]{4}_[0-9]{2}$'
    and not case when needed = 'delete' then has_table_privilege(c.oid, needed) else has_any_column_privilege(c.oid, needed) end
union all
select 'usage on perdure.' || quote_ident(c.relname)
from pg_class c
where c.relnamespace = to_regnamespace('perdure') and case when c.relkind = 'S' then not has_sequence_privilege(c.oid, 'usage') end
union all
select 'execute on function ' || p.oid::regprocedure
from pg_proc p
where p.pronamespace = to_regnamespace('perdure') and p.proname = any($3::text[]) and not has_function_privilege(p.oid, 'execute')
