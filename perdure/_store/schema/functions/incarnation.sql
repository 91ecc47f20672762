-- The present state of the running server.
create or replace function perdure.incarnation(out system_identifier bigint, out database_oid oid, out timeline int, out postmaster_started timestamptz)
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    system_identifier := (select c.system_identifier from pg_control_system() c);
    database_oid := (select oid from pg_database where datname = current_database());
    postmaster_started := pg_postmaster_start_time();
    if not pg_is_in_recovery() then
        -- `pg_control_checkpoint` shows it only after the next checkpoint.
        timeline := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int;
    end if;
end $$;
