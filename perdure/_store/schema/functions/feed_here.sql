-- The origin of the feed, which identifies this database. The first call after a restore notes a new one, and waits once for writers.
create or replace function perdure.feed_here() returns perdure.feed_origin
language plpgsql volatile security definer set search_path = perdure, pg_temp as $$
declare
    system bigint := (select c.system_identifier from pg_control_system() c);
    database oid := (select d.oid from pg_database d where d.datname = current_database());
    newest record;
    here feed_origin;
begin
    if pg_is_in_recovery() then
        raise exception 'perdure.feed: this server is a standby' using
            hint = 'Ask the primary: a standby does not know which transactions are under way.',
            errcode = 'cannot_connect_now'; -- it may take over: the position is not refused
    end if;
    for attempt in 1..2 loop
        select o as origin, o.noted_xmin = o.xmin::text and o.system_identifier = system as same_cluster
            into newest from feed_origin o order by o.number desc limit 1;
        here := newest.origin;
        if newest.same_cluster and here.database_oid = database then
            return here;
        end if;
        if current_setting('transaction_read_only') = 'on' then
            raise exception 'perdure.feed: this database is new or was restored, and this transaction is read-only' using
                hint = 'Call perdure.feed_position() once in a transaction that may write; a worker does so when it starts.',
                errcode = 'read_only_sql_transaction';
        end if;
        lock table feed_origin in share row exclusive mode; -- and read again: another session may have been faster
    end loop;
    if newest.same_cluster is not true then
        lock table transition in share mode;
        perform raise_sequences();
        here.floor := coalesce((select max(seq) from transition), 0);
        here.first_xid := pg_snapshot_xmin(pg_current_snapshot());
    end if;
    insert into feed_origin (number, system_identifier, database_oid, floor, first_xid)
        values (coalesce(here.number, 0) + 1, system, database, here.floor, here.first_xid) returning * into here;
    update feed_origin set noted_xmin = xmin::text where number = here.number; -- the new version of the row has the same one
    return here;
end $$;
