-- The end of a new stretch: the rows that `committed` sees, up to the newest transaction from `oldest` on that has an event.
create or replace function perdure.feed_upto(committed pg_snapshot, oldest xid8, floor bigint) returns pg_snapshot
language plpgsql stable set search_path = perdure, pg_temp
    set plan_cache_mode = force_generic_plan set enable_seqscan = off
    set max_parallel_workers_per_gather = 0 set jit = off as $$
declare
    newest xid8 := (select x.xid from transition x
        where x.xid >= oldest and x.xid < pg_snapshot_xmax(committed) and pg_visible_in_snapshot(x.xid, committed) and x.seq + 0 > floor
        order by x.xid desc limit 1);
    bound xid8 := coalesce((newest::text::bigint + 1)::text::xid8, oldest);
begin
    return format('%s:%s:%s', least(pg_snapshot_xmin(committed), bound), bound,
        (select string_agg(x::text, ',' order by x) from pg_snapshot_xip(committed) x where x < bound));
end $$;
