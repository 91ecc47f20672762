-- Transactions that are not over in a snapshot.
create or replace function perdure.feed_unseen(s pg_snapshot) returns int8multirange
language sql immutable set search_path = perdure, pg_temp
return int8multirange(int8range(pg_snapshot_xmax(s)::text::bigint, null)) + coalesce(
    (select range_agg(int8range(x::text::bigint, x::text::bigint, '[]')) from pg_snapshot_xip(s) x), '{}');
