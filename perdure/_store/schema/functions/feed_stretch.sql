-- A stretch of the feed: rows that `upto` sees and `seen` does not, in order of `seq`, after `past` and up to `last`. '1:1:' = nothing
-- is seen yet. Then, and inside a stretch, rows are found by `seq`; otherwise by the transactions that were not over in `seen`.
create or replace function perdure.feed_stretch(seen pg_snapshot, upto pg_snapshot, past bigint, last bigint, floor bigint, most int)
returns setof perdure.transition
language plpgsql stable set search_path = perdure, pg_temp
    set plan_cache_mode = force_generic_plan set enable_seqscan = off
    set max_parallel_workers_per_gather = 0 set jit = off as $$
begin
    if past > 0 or pg_snapshot_xmax(seen) = '1' then
        return query select * from transition x
            where x.seq > past and x.seq <= last and case when x.seq <= floor then pg_snapshot_xmax(seen) = '1'
                else pg_visible_in_snapshot(x.xid, upto) and not pg_visible_in_snapshot(x.xid, seen) end
            order by x.seq limit most;
    else
        return query select * from (
                select * from transition where xid >= pg_snapshot_xmax(seen) and xid < pg_snapshot_xmax(upto)
                union all
                select * from transition where xid = any(array(select pg_snapshot_xip(seen)))) x
            where x.seq + 0 > floor and x.seq + 0 <= last -- + 0: by that index it would read all of them
                and pg_visible_in_snapshot(x.xid, upto)
            order by x.seq + 0 limit most;
    end if;
end $$;
