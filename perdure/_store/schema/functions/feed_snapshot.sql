-- The present snapshot of committed transactions. The caller's own transaction counts as under way, even if it has written.
create or replace function perdure.feed_snapshot() returns pg_snapshot
language plpgsql volatile set search_path = perdure, pg_temp as $$
declare
    now_seen pg_snapshot := pg_current_snapshot();
    own xid8 := pg_current_xact_id_if_assigned();
begin
    if own is null or not pg_visible_in_snapshot(own, now_seen) then
        return now_seen;
    end if;
    return (format('%s:%s:', pg_snapshot_xmin(now_seen), pg_snapshot_xmax(now_seen)) || (
        select string_agg(x::text, ',' order by x) from (select pg_snapshot_xip(now_seen) union select own) under_way (x)))::pg_snapshot;
end $$;
