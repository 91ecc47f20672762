-- The event feed: every transition, to followers in any language that remember only their last position; and existing
-- tables of work, taken over. It only adds: workers of earlier releases run on it.

-- Which transaction wrote it, and its place among all: drawn while the entity's row in `ident` is held, so an entity's
-- are in order. Zero in both = older than the feed.
alter table perdure.transition
    add column xid xid8 not null default '0',
    add column seq bigint not null default 0;
create sequence perdure.transition_seq;
alter sequence perdure.transition_seq owned by perdure.transition.seq;
alter table perdure.transition
    alter column xid set default pg_current_xact_id(),
    alter column seq set default nextval('perdure.transition_seq');
create index transition_by_seq on perdure.transition (seq);
create index transition_by_xid on perdure.transition (xid);

-- Up to which `seq` transitions came from another cluster by a dump: there `xid` means nothing here, and all are settled.
create table perdure.feed_origin (
    system_identifier bigint      primary key,
    seq               bigint      not null,
    since             timestamptz not null default clock_timestamp()
);
insert into perdure.feed_origin (system_identifier, seq) select system_identifier, 0 from pg_control_system();

-- Where positions hold. Numbers of transactions of another cluster, timeline or epoch mean nothing here.
create function perdure.feed_place() returns text
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
declare
    i record := incarnation();
begin
    if pg_is_in_recovery() then
        raise exception 'perdure.feed: this server is a standby' using
            hint = 'Ask the primary: only there it is known which transactions are under way.',
            errcode = 'object_not_in_prerequisite_state';
    end if;
    return format('%s.%s.%s.%s', i.system_identifier, i.database_oid, i.timeline, epoch());
end $$;

-- What is committed now. The caller's own transaction counts as under way, also where it has written already.
create function perdure.feed_snapshot() returns pg_snapshot
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

-- The `seq` up to which transitions came from elsewhere. Asked for the first time on another cluster it waits for whoever
-- writes now, so that all that is there is settled.
create function perdure.feed_floor() returns bigint
language plpgsql volatile security definer set search_path = perdure, pg_temp as $$
declare
    here bigint := (select system_identifier from pg_control_system());
    found_seq bigint := (select seq from feed_origin where system_identifier = here);
begin
    if found_seq is null then
        lock table transition in share mode;
        insert into feed_origin (system_identifier, seq) select here, coalesce(max(seq), 0) from transition on conflict do nothing;
        select seq into found_seq from feed_origin where system_identifier = here;
    end if;
    return found_seq;
end $$;

-- A stretch of the feed: what `upto` sees and `seen` does not, in order of `seq`, after the place `past`. Seen by nobody yet:
-- '1:1:'. Then, and inside a stretch, rows are found by `seq`; else by the transactions that were not over in `seen`.
create function perdure.feed_stretch(seen pg_snapshot, upto pg_snapshot, past bigint, floor bigint, most int)
returns setof perdure.transition
language plpgsql stable set search_path = perdure, pg_temp
    set plan_cache_mode = force_generic_plan set enable_seqscan = off
    set max_parallel_workers_per_gather = 0 set jit = off as $$
begin
    if past > 0 or pg_snapshot_xmax(seen) = '1' then
        return query select * from transition x
            where x.seq > past and case when x.seq <= floor then pg_snapshot_xmax(seen) = '1'
                else pg_visible_in_snapshot(x.xid, upto) and not pg_visible_in_snapshot(x.xid, seen) end
            order by x.seq limit most;
    else
        return query select * from (
                select * from transition where xid >= pg_snapshot_xmax(seen)
                union all
                select * from transition where xid = any(array(select pg_snapshot_xip(seen)))) x
            where x.seq + 0 > floor and pg_visible_in_snapshot(x.xid, upto) -- + 0: by that index it would read all of them
            order by x.seq + 0 limit most;
    end if;
end $$;

-- Every transition once, each entity's in order: those after the position `after`, null = from the beginning, `most` at once.
-- Remember the position of the last row that you have dealt with. One that you have not may come again.
create function perdure.feed(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, round int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    place text := perdure.feed_place();
    floor bigint := perdure.feed_floor();
    committed pg_snapshot := perdure.feed_snapshot();
    parts text[] := regexp_match(after, '^([\d.]+)/(\d+:\d+:[\d,]*)(?:/(\d+:\d+:[\d,]*)/(\d{1,18}))?$');
    seen pg_snapshot;
    upto pg_snapshot;
    past bigint := coalesce(parts[4]::bigint, 0);
    found_here transition[];
begin
    if coalesce(most, 0) not between 1 and 10000 then
        raise exception 'perdure.feed: most can not be %', coalesce(most::text, 'null')
            using hint = 'Say how many rows to return at most, 1 to 10000.', errcode = 'invalid_parameter_value';
    end if;
    begin
        seen := coalesce(parts[2], '1:1:');
        upto := coalesce(parts[3]::pg_snapshot, committed);
    exception when invalid_text_representation then
        parts := null;
    end;
    if after is not null and parts is null then
        raise exception 'perdure.feed: % is not a position', quote_literal(left(after, 60)) using
            hint = 'Give the position of the last row that you have dealt with, or null to begin with the oldest.',
            errcode = 'invalid_parameter_value';
    end if;
    if parts[1] <> place or pg_snapshot_xmax(coalesce(parts[3]::pg_snapshot, seen)) > pg_snapshot_xmax(committed) then
        raise exception 'perdure.feed: that position does not hold here: it is of %, and this is % (cluster.database.timeline.epoch)', parts[1], place
            using detail = 'This database is a copy, was restored, or another server took over: what came after that position can not be told.',
            hint = 'Begin again with perdure.feed_position(since => a time before that); what comes again has the lifecycle, id, version and at that it had.',
            errcode = 'object_not_in_prerequisite_state';
    end if;
    loop
        found_here := array(select x from feed_stretch(seen, upto, past, floor, most + 1) x);
        exit when cardinality(found_here) > 0 or parts[3] is null;
        seen := upto; upto := committed; past := 0; parts := null; -- that stretch is over
    end loop;
    return query select
            case when x.n = cardinality(found_here) and x.n <= most then format('%s/%s', place, upto)
                else format('%s/%s/%s/%s', place, seen, upto, x.seq) end,
            x.lifecycle, x.id, x.round, x.version, x.state, x.attention, x.why, x.made_by, x.at
        from unnest(found_here) with ordinality x (lifecycle, id, round, version, state, attention, why, made_by, at, xid, seq, n)
        where x.n <= most order by x.n;
end $$;

-- A position to begin with: what is committed from now on, or what was put on record since a time.
create function perdure.feed_position(since timestamptz default null) returns text
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    committed pg_snapshot := perdure.feed_snapshot();
    first_seq bigint := (select min(seq) from transition where at >= since and seq > 0);
begin
    if first_seq is null then
        return format('%s/%s', perdure.feed_place(), committed);
    end if;
    return format('%s/%s/%s/%s', perdure.feed_place(), '1:1:', committed, first_seq - 1);
end $$;

-- Starts the lifecycle of a row of work that was there before perdure: as perdure.start does. `effect_key` is given where an
-- older job may have begun the effect: then it counts as in doubt, and may be in flight for `timeout` more. So the first
-- attempt meets what stands, and the effect's doubt policy has the word. `since` null = begun so long ago that nobody remembers it.
create function perdure.adopt(lifecycle text, entity_id text, input jsonb, state text default 'pending', priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    now_at timestamptz;
    answer text;
begin
    if (adopt.effect is null) <> (adopt.effect_key is null) or adopt.timeout is null then
        raise exception 'perdure.adopt: effect %, effect_key %, timeout % do not go together', adopt.effect, effect_key, adopt.timeout
            using hint = 'Give an effect with its key and its time-out, or neither.', errcode = 'invalid_parameter_value';
    end if;
    answer := perdure.start(adopt.lifecycle, entity_id, adopt.input, adopt.state, priority => adopt.priority);
    now_at := clock_timestamp();
    if answer = 'started' and effect_key is not null then
        insert into effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (effect_key, adopt.lifecycle, entity_id, 0, adopt.effect, gen_random_uuid()::text, 'in_doubt', '',
                case when adopt.since is null then 'epoch' else least(adopt.since, now_at) end, least(adopt.since, now_at), now_at + adopt.timeout,
                'adopted while processing')
            on conflict do nothing;
    end if;
    return answer;
end $$;

revoke all on all functions in schema perdure from public;
revoke all on all sequences in schema perdure from public;
