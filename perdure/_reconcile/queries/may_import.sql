-- Whether this role may import rows, of all entities or of some.
select bool_or(p.may) filter (where p.proname = 'import_row')
    and bool_or(p.may) filter (where p.proname in ('import_row_any', 'import_row_scoped'))
from (
    select proname, pg_catalog.has_function_privilege(oid, 'execute') as may
    from pg_catalog.pg_proc where pronamespace = 'perdure'::regnamespace
) p
