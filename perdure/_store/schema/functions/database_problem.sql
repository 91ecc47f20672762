-- Why this is not the database that was verified last; null = it is. Called before anything is sent. A server of the same start has
-- the same timeline and system identifier, so these are not read each time. While a dump is being restored over the database, there
-- is no row, or an old one.
create or replace function perdure.database_problem() returns text
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
declare
    d perdure.database;
    i record;
begin
    select * into d from perdure.database;
    if not found then
        return 'not verified';
    elsif d.stopped is not null then
        return d.stopped;
    end if;
    if d.mark is null or (d.postmaster_started = pg_postmaster_start_time()
            and d.filenode is not distinct from pg_relation_filenode('perdure.database')
            and d.database_oid = (select oid from pg_database where datname = current_database())) then
        return null;
    end if;
    i := perdure.incarnation();
    if i.system_identifier is distinct from d.system_identifier or i.database_oid is distinct from d.database_oid then
        return format('this database (system %s, oid %s) is a copy of the one that works with scope %L in namespace %L (system %s, oid %s)',
            i.system_identifier, i.database_oid, d.scope, d.namespace, d.system_identifier, d.database_oid);
    end if;
    return 'not verified';
end $$;
