-- Notes the transactions of a month before its partitions are dropped, and again after, so that the feed can refuse a follower that
-- has not read them. Of more than 100,000 transactions only the first and the last are noted.
create or replace function perdure.note_dropping(first_day date) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    here feed_origin := feed_here();
    name text := format('perdure.%I', 'transition_' || to_char(first_day, 'YYYY_MM'));
    noted record;
begin
    select 0::bigint as last_seq, 0::bigint as loaded_seq, '{}'::int8multirange as xids into noted;
    if to_regclass(name) is not null then
        execute format('
            with own as (select distinct xid::text::bigint as x from %1$s where seq > $1), size as (select count(*) as n from own),
                ranges as (select int8range(x, x, ''[]'') as r from own, size where n <= 100000
                    union all select int8range(min(x), max(x), ''[]'') from own, size where n > 100000 having count(*) > 0)
            select (select coalesce(max(seq), 0) from %1$s where seq > $1) as last_seq,
                (select coalesce(max(seq), 0) from %1$s where seq <= $1) as loaded_seq,
                (select coalesce(range_agg(r), ''{}'') from ranges) as xids', name)
            into noted using here.floor;
    end if;
    insert into month (month, dropping_at, last_seq, loaded_seq, xids, notice, origin)
        select first_day, clock_timestamp(), noted.last_seq, noted.loaded_seq, noted.xids, coalesce(max(m.notice), 0) + 1, here.id from month m
        on conflict (month) do update set dropping_at = coalesce(month.dropping_at, excluded.dropping_at), last_seq = excluded.last_seq,
            loaded_seq = excluded.loaded_seq, xids = excluded.xids, notice = excluded.notice, origin = excluded.origin;
end $$;
