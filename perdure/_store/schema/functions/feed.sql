-- Every transition once, each entity's in order: those after the position `after`, null = from the beginning, `most` at once.
-- Remember the position of the last row that you have handled. One that you have not handled may come again.
-- A position: ORIGIN.RUN/SEEN/UPTO/SINCE-PAST/CHECKSUM.NOTICE.TIME, PAST empty = that stretch is over.
create or replace function perdure.feed_any(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, generation int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    here feed_origin := feed_here();
    notices int := (select coalesce(max(m.notice), 0) from month m);
    committed pg_snapshot := feed_snapshot();
    parts text[] := regexp_match(after,
        '^([0-9a-f]{12})[.]([0-9a-f]{8})/([0-9]+:[0-9]+:[0-9,]*)/([0-9]+:[0-9]+:[0-9,]*)/([0-9]{1,18})-([0-9]{0,18})/(-?[0-9]{1,19})[.]([0-9]{1,9})[.]([0-9]{1,12})$');
    seen pg_snapshot;
    upto pg_snapshot;
    since bigint;
    past bigint;
    digest bigint;
    known int;
    read_at timestamp := to_timestamp(parts[9]::bigint) at time zone 'UTC';
    lost date;
    problem text;
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
        problem := format('it was given by another database, or by this one before a dump was restored (origin %s, here %s)', parts[1], here.id);
    elsif parts[2] <> feed_run() and not feed_gone(here.id, known, seen, upto)
            and digest <> feed_check(seen, upto, since, coalesce(past, 9223372036854775807), here.floor) then
        problem := 'what was read up to it is not on record here: the database was put back to an earlier time, another server took over '
            'that had not received it, or it was erased (perdure forget)';
    end if;
    if problem is not null then
        raise exception 'perdure.feed: the position % does not hold here: %', quote_literal(after), problem using
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
    -- After the page was read, so that a month that is dropped meanwhile is noticed.
    if after is not null then
        lost := feed_lost(here.id, parts[8]::int, parts[3]::pg_snapshot, parts[4]::pg_snapshot, nullif(parts[6], '')::bigint);
    end if;
    -- A snapshot that is older than a drop shows no note of it, and PostgreSQL reads no detached partition.
    if current_setting('transaction_isolation') <> 'read committed' and exists (select from pg_inherits p
            where p.inhparent = 'perdure.transition'::regclass and pg_partition_root(p.inhrelid) is null) then
        raise exception 'perdure.feed: a month was dropped since this transaction began' using
            hint = 'Roll back, and ask again.', errcode = 'serialization_failure';
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
            x.lifecycle, x.id, x.generation, x.version, x.state, x.attention, x.why, x.made_by, x.at
        from unnest(found_here) with ordinality x (lifecycle, id, generation, version, state, attention, why, made_by, at, xid, seq, effect, session_role, n)
        where x.n <= most order by x.n;
end $$;

-- The feed for a role with permissions: the transitions that it may see. A position of the feed stands for all rows before it, so
-- it is valid for each role.
create or replace function perdure.feed_scoped(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, generation int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    kinds constant text[] := '{app,operator,console,reader}';
    place text := after;
    seen int;
    given int := 0;
begin
    if not exists (select from permission p join pg_roles r on r.oid = p.role_oid and r.rolname = p.role
            where p.kind = any(kinds) and pg_has_role(asking_role(), r.oid, 'usage')) then
        perform permit('feed', kinds, null, null);
    end if;
    loop
        seen := 0;
        for "position", lifecycle, id, generation, version, state, attention, why, made_by, at in
            select x."position", x.lifecycle, x.id, x.generation, x.version, x.state, x.attention, x.why, x.made_by, x.at from perdure.feed_any(place, most) x
        loop
            seen := seen + 1;
            place := feed_scoped."position";
            if permitted(kinds, feed_scoped.lifecycle, tenants(feed_scoped.lifecycle, feed_scoped.id)) then
                given := given + 1;
                return next;
                exit when given = most;
            end if;
        end loop;
        exit when given = most or seen < most;
    end loop;
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.feed(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, generation int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.feed_any(text, int)', 'execute') then
        return query select * from perdure.feed_any(after, most);
    else
        return query select * from perdure.feed_scoped(after, most);
    end if;
end $$;
