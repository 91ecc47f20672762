-- Months that are exported and dropped; entities that are forgotten. It only adds: workers of earlier releases run on it.

-- What became of a month.
create table perdure.month (
    month             date        primary key check (extract(day from month) = 1),
    exported_at       timestamptz,
    files             jsonb       not null default '[]', -- of the newest export: part, path, rows, bytes
    forgotten         jsonb       not null default '{}', -- rows that were erased since then, by table
    dropping_at       timestamptz,                       -- from then on nobody makes it again
    clearing_at       timestamptz,                       -- from then on its effects go: an export would not be whole
    -- What followers of the feed lose with it: up to which `seq` and transaction, and which transaction said so, where.
    last_seq          bigint      not null default 0,
    last_xid          xid8        not null default '0',
    said_by           xid8,
    system_identifier bigint,
    dropped_at        timestamptz
);

-- Transitions of months that are gone, of entities that were open then. They go with the entity's last month.
create table perdure.carried_transition (like perdure.transition, primary key (lifecycle, id, version, at));

-- Effects whose doubt outlived their month: they go when somebody has settled them.
create table perdure.kept_effect (
    key   text primary key collate "C",
    month date not null
);

-- Makes the partitions of one month, unless it is being dropped. Returns how many it made.
create function perdure.make_month(first_day date) returns int
language plpgsql set search_path = perdure, pg_temp as $$
declare
    made int := 0;
    parent text;
    child text;
begin
    if exists (select from month m where m.month = first_day and m.dropping_at is not null) then
        return 0;
    end if;
    foreach parent in array array['finished', 'transition'] loop
        child := parent || '_' || to_char(first_day, 'YYYY_MM');
        if to_regclass(format('perdure.%I', child)) is null then
            -- Made apart and attached: `partition of` would wait for every transaction that has written here, and
            -- everybody behind it.
            execute format('create table perdure.%I (like perdure.%I including all)', child, parent);
            execute format('alter table perdure.%I attach partition perdure.%I for values from (%L) to (%L)', parent, child,
                first_day::text || ' 00:00:00+00', (first_day + interval '1 month')::date::text || ' 00:00:00+00');
            made := made + 1;
        end if;
    end loop;
    return made;
end $$;

-- Makes the partitions of this month and the next `ahead` ones; safe to call at any time.
create or replace function perdure.make_months(ahead int default 24) returns int
language plpgsql set search_path = perdure, pg_temp as $$
declare
    made int := 0;
begin
    perform pg_advisory_xact_lock(hashtext('perdure.make_months'));
    -- UTC, so that servers in any zone agree on what a month is; one month back for clocks that differ.
    for months in -1..ahead loop
        made := made + make_month(
            (date_trunc('month', clock_timestamp() at time zone 'UTC') + make_interval(months => months))::date);
    end loop;
    return made;
end $$;

-- The newest month that went with transitions which a follower at this position was never given; null = none. `seen`, `upto`
-- and `past` are as in feed_stretch; `upto` null = between two stretches. A month from before the position is no loss.
create function perdure.feed_lost(seen pg_snapshot, upto pg_snapshot, past bigint) returns date
language plpgsql volatile set search_path = perdure, pg_temp as $$
begin
    return (
        select max(m.month) from month m
        where m.last_seq > 0 and m.system_identifier = (select c.system_identifier from pg_control_system() c)
            and not pg_visible_in_snapshot(m.said_by, coalesce(upto, seen))
            and (m.last_xid >= pg_snapshot_xmin(coalesce(upto, seen))
                or upto is not null and m.last_seq > past and m.last_xid >= pg_snapshot_xmin(seen)));
end $$;

-- Every transition once, each entity's in order: those after the position `after`, null = from the beginning, `most` at once.
-- Remember the position of the last row that you have dealt with. One that you have not may come again.
create or replace function perdure.feed(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, round int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    place text := perdure.feed_place();
    floor bigint := perdure.feed_floor();
    committed pg_snapshot := perdure.feed_snapshot();
    parts text[] := regexp_match(after, '^([\d.]+)/(\d+:\d+:[\d,]*)(?:/(\d+:\d+:[\d,]*)/(\d{1,18}))?$');
    given text[];
    seen pg_snapshot;
    upto pg_snapshot;
    past bigint := coalesce(parts[4]::bigint, 0);
    found_here transition[];
    lost date;
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
    given := parts;
    loop
        found_here := array(select x from feed_stretch(seen, upto, past, floor, most + 1) x);
        exit when cardinality(found_here) > 0 or parts[3] is null;
        seen := upto; upto := committed; past := 0; parts := null; -- that stretch is over
    end loop;
    -- After it was read: a month that went meanwhile is told as well.
    lost := case when given is not null then perdure.feed_lost(given[2]::pg_snapshot, given[3]::pg_snapshot, coalesce(given[4]::bigint, 0)) end;
    if lost is not null then
        raise exception 'perdure.feed: that position does not hold any more: % was dropped, with transitions that came after it', to_char(lost, 'YYYY-MM')
            using detail = 'What was in that month can not be told; it may have been exported (perdure archive list).',
            hint = format('Begin again with perdure.feed_position(since => %L), or with null: the oldest on record.', (lost + interval '1 month')::date),
            errcode = 'object_not_in_prerequisite_state';
    end if;
    return query select
            case when x.n = cardinality(found_here) and x.n <= most then format('%s/%s', place, upto)
                else format('%s/%s/%s/%s', place, seen, upto, x.seq) end,
            x.lifecycle, x.id, x.round, x.version, x.state, x.attention, x.why, x.made_by, x.at
        from unnest(found_here) with ordinality x (lifecycle, id, round, version, state, attention, why, made_by, at, xid, seq, n)
        where x.n <= most order by x.n;
end $$;

-- Says, before its partitions go and again after, what a month takes with it, so that the feed tells its followers.
create function perdure.say_dropping(first_day date) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    name text := format('perdure.%I', 'transition_' || to_char(first_day, 'YYYY_MM'));
    last record;
begin
    select 0::bigint as seq, '0'::xid8 as xid into last;
    if to_regclass(name) is not null then
        execute format('select coalesce(max(seq), 0) as seq, coalesce(max(xid) filter (where seq > $1), ''0'') as xid from %s', name)
            into last using feed_floor();
    end if;
    insert into month (month, dropping_at, last_seq, last_xid, said_by, system_identifier)
        select first_day, clock_timestamp(), last.seq, last.xid, pg_current_xact_id(), c.system_identifier from pg_control_system() c
        on conflict (month) do update set dropping_at = coalesce(month.dropping_at, excluded.dropping_at),
            last_seq = excluded.last_seq, last_xid = excluded.last_xid, said_by = excluded.said_by,
            system_identifier = excluded.system_identifier;
end $$;

-- Erases what is on record of a finished entity, but that it finished. Returns how many rows went, by table. Its workflow's
-- history in Temporal, archives and the app's own row are not reached from here.
create function perdure.forget(lifecycle text, entity_id text, made_by text) returns jsonb
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    doubtful text;
    noted bigint;
    part record;
    gone int;
    said jsonb := '{}';
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 then
        raise exception 'perdure.forget: made_by % can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who asks, in 1 to 200 characters.', errcode = 'invalid_parameter_value';
    end if;
    if not pg_try_advisory_xact_lock_shared(hashtext('perdure.archive')) then
        raise exception 'perdure.forget: a month is being exported or dropped, and might keep %/%', forget.lifecycle, entity_id
            using hint = 'Wait until that is over, and ask again.', errcode = 'object_not_in_prerequisite_state';
    end if;
    perform pg_advisory_xact_lock(hashtextextended(forget.lifecycle || '/' || entity_id, x'70657264'::bigint)); -- as a relay does
    select * into i from ident x where x.lifecycle = forget.lifecycle and x.id = entity_id for no key update;
    if not found then
        raise exception 'perdure.forget: there is no %/%', forget.lifecycle, entity_id
            using hint = 'It was never started, or its transaction was rolled back.', errcode = 'no_data_found';
    end if;
    if i.final is null then
        raise exception 'perdure.forget: %/% is still open', i.lifecycle, i.id
            using hint = 'Cancel it first, and wait for its end.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select key into doubtful from effect x where x.lifecycle = i.lifecycle and x.id = i.id and x.status in ('attempting', 'in_doubt') limit 1;
    if found then
        raise exception 'perdure.forget: whether % happened is not known', quote_literal(doubtful)
            using hint = 'Settle it first (perdure resolve): afterwards nobody could.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select greatest(i.version, max(t.version)) + 1 into noted from transition t where t.lifecycle = i.lifecycle and t.id = i.id;
    delete from kept_effect k using effect x where x.lifecycle = i.lifecycle and x.id = i.id and k.key = x.key;
    foreach doubtful in array array['effect', 'message', 'outbox', 'rejected', 'behind', 'finding', 'carried_transition'] loop
        execute format('delete from perdure.%I x where x.lifecycle = $1 and x.id = $2', doubtful) using i.lifecycle, i.id;
        get diagnostics gone = row_count;
        said := said || jsonb_build_object(doubtful, gone);
    end loop;
    -- Table by table, for a month that is being dropped is no partition any more.
    for part in select c.relname, left(c.relname, -8) as parent, to_date(right(c.relname, 7), 'YYYY_MM') as month
        from pg_class c where c.relnamespace = 'perdure'::regnamespace and c.relkind = 'r'
            and c.relname ~ '^(finished|transition)_\d{4}_\d{2}$'
    loop
        execute format('delete from perdure.%I where lifecycle = $1 and id = $2', part.relname) using i.lifecycle, i.id;
        get diagnostics gone = row_count;
        said := said || jsonb_build_object(part.parent, coalesce((said->>part.parent)::int, 0) + gone);
        update month m set forgotten = m.forgotten || jsonb_build_object(part.parent, coalesce((m.forgotten->>part.parent)::int, 0) + gone)
            where m.month = part.month and gone > 0;
    end loop;
    insert into transition (lifecycle, id, round, version, state, why, made_by)
        values (i.lifecycle, i.id, i.round, noted, i.final, 'forgotten', forget.made_by);
    return said;
end $$;

revoke all on all functions in schema perdure from public;
