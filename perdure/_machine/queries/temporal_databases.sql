-- Temporal's role on the server, whether `perdure up` created it, the owner of each database, and what we may do.
select
    own.rolsuper as superuser,
    own.rolsuper or own.rolcreaterole as may_make_roles,
    own.rolsuper or own.rolcreatedb as may_make_databases,
    exists (select from pg_catalog.pg_roles where rolname = $1) as role,
    (select pg_catalog.shobj_description(oid, 'pg_authid') from pg_catalog.pg_roles where rolname = $1) as comment,
    (select pg_catalog.pg_get_userbyid(datdba) from pg_catalog.pg_database where datname = $2) as owner_of_temporal,
    (select pg_catalog.pg_get_userbyid(datdba) from pg_catalog.pg_database where datname = $3)
        as owner_of_temporal_visibility
from pg_catalog.pg_roles own
where own.rolname = current_user
