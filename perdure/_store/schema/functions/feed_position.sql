-- A position to begin with: for transitions that are committed from now on, or that were recorded since a time.
create or replace function perdure.feed_position(since timestamptz default null) returns text
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    here feed_origin := feed_here();
    notices int := (select coalesce(max(m.notice), 0) from month m);
    upto pg_snapshot := feed_upto(feed_snapshot(), here.first_xid, here.floor);
    first_seq bigint := (select min(x.seq) from transition x where x.at >= feed_position.since and x.seq > 0);
    seen pg_snapshot := case when first_seq is null then upto else '1:1:' end;
    past bigint := coalesce(first_seq - 1, 0);
begin
    return format('%s.%s/%s/%s/%s-%s/%s.%s.%s', here.id, feed_run(), seen, upto, past, first_seq - 1,
        feed_check(seen, upto, past, past, here.floor), notices, floor(extract(epoch from clock_timestamp())));
end $$;
