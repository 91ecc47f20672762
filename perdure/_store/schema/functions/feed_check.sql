-- A checksum of the part of a stretch that a follower has read, after the place `since` and up to `past`, and of the newest
-- transaction of that stretch. After a restart of the server, it shows whether that part is still on record.
create or replace function perdure.feed_check(seen pg_snapshot, upto pg_snapshot, since bigint, past bigint, floor bigint) returns bigint
language plpgsql stable set search_path = perdure, pg_temp set jit = off set enable_seqscan = off as $$
begin
    return (select coalesce(bit_xor(hashtextextended(extract(epoch from x.at)::text, x.seq)), 0)
            from feed_stretch(seen, upto, since, past, floor, null) x)
        # (select coalesce(bit_xor(hashtextextended(extract(epoch from x.at)::text, -x.seq)), 0) from transition x
            where x.xid = (pg_snapshot_xmax(upto)::text::bigint - 1)::text::xid8 and x.seq + 0 > floor);
end $$;
