-- Statements that remove the tables and functions of a schema that was not finished. What an extension brought stays.
select format('drop table if exists %s cascade', oid::regclass) as statement
from pg_catalog.pg_class
where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and relowner = current_user::regrole
union all
select format('drop function if exists %s cascade', p.oid::regprocedure)
from pg_catalog.pg_proc p
where pronamespace = current_schema()::regnamespace
    and proowner = current_user::regrole
    and not exists (
        select from pg_catalog.pg_depend
        where classid = 'pg_catalog.pg_proc'::regclass and objid = p.oid and deptype = 'e'
    )
