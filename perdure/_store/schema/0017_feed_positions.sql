-- Positions of the feed that hold through a crash of PostgreSQL, and that are refused where they can't hold.

-- A crash gives the numbers of transactions whose write-ahead log was not flushed to others. A position counts only
-- transactions that have an event as over, and those are on disk: a transition is never committed asynchronously.
alter table perdure.transition alter column xid set default
    case when current_setting('synchronous_commit') <> 'off' or set_config('synchronous_commit', 'on', true) = 'on' then pg_current_xact_id() end;

-- The databases that this one has been, newest last: a position holds in the one that gave it. Another one begins where this
-- is a copy (another oid) or a dump was restored: rows that were loaded have another `xmin` than was noted.
delete from perdure.feed_origin;
alter table perdure.feed_origin drop constraint feed_origin_pkey;
alter table perdure.feed_origin rename column seq to floor; -- up to this `seq` transitions came by a dump: their `xid` means nothing
alter table perdure.feed_origin
    add column number       int  primary key,
    add column id           text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    add column database_oid oid  not null,
    add column noted_xmin   text,
    add column first_xid    xid8 not null; -- no later transition has a smaller one

-- What followers lose with a month: transactions and the highest `seq` of its own transitions; the highest of those loaded.
alter table perdure.month
    drop column last_xid, drop column said_by, drop column system_identifier,
    add column origin     text,
    add column notice     int            not null default 0, -- grows with each month that goes
    add column xids       int8multirange not null default '{}',
    add column loaded_seq bigint         not null default 0;

drop function perdure.feed_stretch, perdure.feed_lost, perdure.feed_floor, perdure.feed_place;

-- The database that this is for the feed. The first call after a restore notes a new one, and waits once for those who write.
create function perdure.feed_here() returns perdure.feed_origin
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
            errcode = 'object_not_in_prerequisite_state';
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
        lock table feed_origin in share row exclusive mode; -- and look again: another session may have been faster
    end loop;
    if newest.same_cluster is not true then
        lock table transition in share mode;
        here.floor := coalesce((select max(seq) from transition), 0);
        here.first_xid := pg_snapshot_xmin(pg_current_snapshot());
    end if;
    insert into feed_origin (number, system_identifier, database_oid, floor, first_xid)
        values (coalesce(here.number, 0) + 1, system, database, here.floor, here.first_xid) returning * into here;
    update feed_origin set noted_xmin = xmin::text where number = here.number; -- the new version of the row has the same one
    return here;
end $$;

-- One start of the server. Within one nothing can have been put back.
create function perdure.feed_run() returns text
language sql stable set search_path = perdure, pg_temp
return substr(md5(extract(epoch from pg_postmaster_start_time())::text), 1, 8);

-- Transactions that are not over in a snapshot.
create function perdure.feed_unseen(s pg_snapshot) returns int8multirange
language sql immutable set search_path = perdure, pg_temp
return int8multirange(int8range(pg_snapshot_xmax(s)::text::bigint, null)) + coalesce(
    (select range_agg(int8range(x::text::bigint, x::text::bigint, '[]')) from pg_snapshot_xip(s) x), '{}');

-- Up to where a new stretch goes: what `committed` sees, up to the newest transaction from `oldest` on that has an event.
create function perdure.feed_upto(committed pg_snapshot, oldest xid8, floor bigint) returns pg_snapshot
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

-- A stretch of the feed: what `upto` sees and `seen` does not, in order of `seq`, after `past` and up to `last`. Seen by nobody
-- yet: '1:1:'. Then, and inside a stretch, rows are found by `seq`; else by the transactions that were not over in `seen`.
create function perdure.feed_stretch(seen pg_snapshot, upto pg_snapshot, past bigint, last bigint, floor bigint, most int)
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

-- A checksum of what a follower has read of a stretch, after the place `since` and up to `past`, and of the newest transaction
-- of that stretch. Where the server was started again, it shows whether all that is still on record here.
create function perdure.feed_check(seen pg_snapshot, upto pg_snapshot, since bigint, past bigint, floor bigint) returns bigint
language plpgsql stable set search_path = perdure, pg_temp set enable_seqscan = off as $$
begin
    return (select coalesce(bit_xor(hashtextextended(extract(epoch from x.at)::text, x.seq)), 0)
            from feed_stretch(seen, upto, since, past, floor, null) x)
        # (select coalesce(bit_xor(hashtextextended(extract(epoch from x.at)::text, -x.seq)), 0) from transition x
            where x.xid = (pg_snapshot_xmax(upto)::text::bigint - 1)::text::xid8 and x.seq + 0 > floor);
end $$;

-- The newest month that has gone since notice `known` with transitions that a follower was not given; null = none. `past` null =
-- it has read the whole stretch.
create function perdure.feed_lost(origin text, known int, seen pg_snapshot, upto pg_snapshot, past bigint) returns date
language plpgsql volatile set search_path = perdure, pg_temp as $$
begin
    return (select max(m.month) from month m where m.origin = feed_lost.origin and m.notice > known
        and (m.xids && feed_unseen(upto)
            or m.last_seq > past and m.xids && (feed_unseen(seen) - feed_unseen(upto))
            or m.loaded_seq > past and pg_snapshot_xmax(seen) = '1'));
end $$;

-- Whether what a follower has read of a stretch has gone with a month since.
create function perdure.feed_gone(origin text, known int, seen pg_snapshot, upto pg_snapshot) returns boolean
language plpgsql volatile set search_path = perdure, pg_temp as $$
begin
    return exists (select from month m where m.origin = feed_gone.origin and m.notice > known
        and (m.xids && (feed_unseen(seen) - feed_unseen(upto)) or m.xids @> pg_snapshot_xmax(upto)::text::bigint - 1
            or m.loaded_seq > 0 and pg_snapshot_xmax(seen) = '1'));
end $$;

-- Every transition once, each entity's in order: those after the position `after`, null = from the beginning, `most` at once.
-- Remember the position of the last row that you have handled. One that you have not handled may come again.
-- A position: ORIGIN.RUN/SEEN/UPTO/SINCE-PAST/CHECKSUM.NOTICE.TIME, PAST empty = that stretch is over.
create or replace function perdure.feed(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, round int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    here feed_origin := feed_here();
    notices int := (select coalesce(max(m.notice), 0) from month m);
    committed pg_snapshot := feed_snapshot();
    parts text[] := regexp_match(after,
        '^([0-9a-f]{12})\.([0-9a-f]{8})/(\d+:\d+:[\d,]*)/(\d+:\d+:[\d,]*)/(\d{1,18})-(\d{0,18})/(-?\d{1,19})\.(\d{1,9})\.(\d{1,12})$');
    seen pg_snapshot;
    upto pg_snapshot;
    since bigint;
    past bigint;
    digest bigint;
    known int;
    read_at timestamp := to_timestamp(parts[9]::bigint) at time zone 'UTC';
    lost date;
    trouble text;
    fresh boolean := after is null;
    found_here transition[];
begin
    if coalesce(most, 0) not between 1 and 10000 then
        raise exception 'perdure.feed: most can not be %', coalesce(most::text, 'null')
            using hint = 'Say how many rows to return at most, 1 to 10000.', errcode = 'invalid_parameter_value';
    end if;
    begin
        seen := parts[3]; upto := parts[4]; since := parts[5]; past := nullif(parts[6], ''); digest := parts[7]; known := parts[8];
    exception when invalid_text_representation or numeric_value_out_of_range then
        parts := null;
    end;
    if after is not null and parts is null then
        raise exception 'perdure.feed: % is not a position', quote_literal(left(after, 60)) using
            hint = 'Give the position of the last row that you have handled, or null to begin with the oldest.',
            errcode = 'invalid_parameter_value';
    end if;
    if parts[1] <> here.id then
        trouble := format('it was given by another database, or by this one before a dump was restored (origin %s, here %s)', parts[1], here.id);
    elsif parts[2] <> feed_run() and not feed_gone(here.id, known, seen, upto)
            and digest <> feed_check(seen, upto, since, coalesce(past, 9223372036854775807), here.floor) then
        trouble := 'what was read up to it is not on record here: the database was put back to an earlier time, another server took over '
            'that had not received it, or it was erased (perdure forget)';
    end if;
    if trouble is not null then
        raise exception 'perdure.feed: the position % does not hold here: %', quote_literal(after), trouble using
            detail = format('The newest event up to it is of %s.', to_char(read_at, 'YYYY-MM-DD HH24:MI:SS "UTC"')),
            hint = format('Begin again with perdure.feed_position(since => %L), or an earlier time if transactions stay open for longer '
                'than an hour; or with null: the oldest on record. An event that comes again has the lifecycle, id, version and at that it had.',
                to_char(read_at - interval '1 hour', 'YYYY-MM-DD HH24:MI:SS"+00"')),
            errcode = 'object_not_in_prerequisite_state';
    end if;
    loop
        if fresh then
            seen := coalesce(upto, '1:1:'); since := 0; past := 0; known := notices;
            upto := feed_upto(committed, case when pg_snapshot_xmax(seen) = '1' then here.first_xid else pg_snapshot_xmax(seen) end, here.floor);
        end if;
        found_here := array(select x from feed_stretch(seen, upto, past, 9223372036854775807, here.floor, most + 1) x where past is not null);
        exit when fresh or cardinality(found_here) > 0;
        fresh := true;
    end loop;
    if fresh and cardinality(found_here) > 0 then
        digest := feed_check(seen, upto, 0, 0, here.floor);
    end if;
    -- After the page was read: so a month that goes meanwhile is noticed.
    if after is not null then
        lost := feed_lost(here.id, parts[8]::int, parts[3]::pg_snapshot, parts[4]::pg_snapshot, nullif(parts[6], '')::bigint);
    end if;
    if lost is not null then
        raise exception 'perdure.feed: the position % does not hold any more: % was dropped, with transitions that came after it',
                quote_literal(after), to_char(lost, 'YYYY-MM')
            using detail = 'The transitions of that month are not in the database any more; they may have been exported (perdure archive list).',
            hint = format('Begin again with perdure.feed_position(since => %L), or with null: the oldest on record.', (lost + interval '1 month')::date),
            errcode = 'object_not_in_prerequisite_state';
    end if;
    return query select
            format('%s.%s/%s/%s/%s-%s/%s.%s.%s', here.id, feed_run(), seen, upto, since,
                case when x.n < cardinality(found_here) or x.n > most then x.seq end,
                digest # bit_xor(hashtextextended(extract(epoch from x.at)::text, x.seq)) over (order by x.n),
                known, floor(extract(epoch from x.at))),
            x.lifecycle, x.id, x.round, x.version, x.state, x.attention, x.why, x.made_by, x.at
        from unnest(found_here) with ordinality x (lifecycle, id, round, version, state, attention, why, made_by, at, xid, seq, effect, n)
        where x.n <= most order by x.n;
end $$;

-- A position to begin with: what is committed from now on, or what was put on record since a time.
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

-- Notes, before its partitions go and again after, what a month takes with it, so that the feed can refuse a follower that
-- misses it. Of more than 100,000 transactions only the first and the last are noted.
create or replace function perdure.say_dropping(first_day date) returns void
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

select perdure.feed_here(); -- all that is on record here is settled: nobody writes while columns are altered

revoke all on all functions in schema perdure from public;
