-- The name of the role of this session, and whether it reads entities and has the functions $1 for certain lifecycles or tenants alone.
select quote_ident(current_user) as role, coalesce(bool_and(has_function_privilege(p.oid, 'execute') = (p.proname = n || '_scoped')), false)
    and exists (select from pg_class c where c.relnamespace = to_regnamespace('perdure') and c.relname = 'entity'
        and has_table_privilege(c.oid, 'select')) as limited
from unnest($1::text[]) n
join pg_proc p on p.pronamespace = to_regnamespace('perdure') and p.proname in (n || '_any', n || '_scoped')
