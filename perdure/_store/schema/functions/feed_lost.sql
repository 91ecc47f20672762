-- The newest month that was dropped since notice `known` with transitions that a follower did not read; null = none. `past` null =
-- the follower has read the whole stretch.
create or replace function perdure.feed_lost(origin text, known int, seen pg_snapshot, upto pg_snapshot, past bigint) returns date
language plpgsql volatile set search_path = perdure, pg_temp as $$
begin
    return (select max(m.month) from month m where m.origin = feed_lost.origin and m.notice > known
        and (m.xids && feed_unseen(upto)
            or m.last_seq > past and m.xids && (feed_unseen(seen) - feed_unseen(upto))
            or m.loaded_seq > past and pg_snapshot_xmax(seen) = '1'));
end $$;
