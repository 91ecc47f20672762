-- Temporal's role on the server, whether `perdure up` created it, and the owner of each database.
select
    (select rolsuper from pg_catalog.pg_roles where rolname = current_user) as superuser,
    exists (select from pg_catalog.pg_roles where rolname = $1) as role,
    (select pg_catalog.shobj_description(oid, 'pg_authid') from pg_catalog.pg_roles where rolname = $1) as comment,
    (select pg_catalog.pg_get_userbyid(datdba) from pg_catalog.pg_database where datname = $2) as main_owner,
    (select pg_catalog.pg_get_userbyid(datdba) from pg_catalog.pg_database where datname = $3) as visibility_owner
