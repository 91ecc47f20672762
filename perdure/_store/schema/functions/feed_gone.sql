-- Whether the part of a stretch that a follower has read was dropped with a month since.
create or replace function perdure.feed_gone(origin text, known int, seen pg_snapshot, upto pg_snapshot) returns boolean
language plpgsql volatile set search_path = perdure, pg_temp as $$
begin
    return exists (select from month m where m.origin = feed_gone.origin and m.notice > known
        and (m.xids && (feed_unseen(seen) - feed_unseen(upto)) or m.xids @> pg_snapshot_xmax(upto)::text::bigint - 1
            or m.loaded_seq > 0 and pg_snapshot_xmax(seen) = '1'));
end $$;
