-- The archive loses nothing that becomes known late: what changes of an effect after its entity has ended is a transition, too.
-- An import can't name another entity's effect. A restart keeps the tenant, also when nothing else is on record.

-- Times that earlier releases let in and that no client can read: first of all, for it reads all effects once and locks nothing
-- but such rows.
create function pg_temp.brought_in(given timestamptz) returns timestamptz
language sql immutable strict as $$
    select greatest('0001-01-01 00:00:00+00', least(given, '9999-12-31 00:00:00+00'))
$$;
update perdure.effect set first_at = pg_temp.brought_in(first_at), attempt_at = pg_temp.brought_in(attempt_at),
        deadline = pg_temp.brought_in(deadline), earlier_doubt = pg_temp.brought_in(earlier_doubt)
    where least(first_at, attempt_at, deadline, earlier_doubt) < '0001-01-01 00:00:00+00'
        or greatest(first_at, attempt_at, deadline, earlier_doubt) >= '10000-01-01 00:00:00+00';
update perdure.outbox set not_before = pg_temp.brought_in(not_before), wanted_at = pg_temp.brought_in(wanted_at)
    where wanted_at < '0001-01-01 00:00:00+00' or greatest(wanted_at, not_before) >= '10000-01-01 00:00:00+00';
update perdure.rejected set wanted_at = pg_temp.brought_in(wanted_at)
    where wanted_at < '0001-01-01 00:00:00+00' or wanted_at >= '10000-01-01 00:00:00+00';
update perdure.entity set stuck_at = pg_temp.brought_in(stuck_at) where stuck_at >= '10000-01-01 00:00:00+00';
drop function pg_temp.brought_in;

-- The effect as it was after that change; null for every other transition.
alter table perdure.transition add column effect jsonb;
alter table perdure.carried_transition add column effect jsonb;
do $$
declare
    detached text;
begin
    for detached in select c.relname from pg_class c
        where c.relnamespace = 'perdure'::regnamespace and c.relkind = 'r' and not c.relispartition and c.relname ~ '^transition_\d{4}_\d{2}$'
    loop
        execute format('alter table perdure.%I add column if not exists effect jsonb', detached);
    end loop;
end $$;

-- Kept for as long as the entity's row, so that a restart has it when its months are gone.
alter table perdure.ident add column tenant text;

-- An export of before may lack what was settled since: such a month is exported again before it is dropped.
update perdure.month set exported_at = null where clearing_at is null and dropped_at is null;

-- Puts on record, as a transition, that an effect has changed after its entity had ended. Its month may have been exported, or
-- be gone. The caller holds the row of `ident`.
create function perdure.note_effect(i perdure.ident, e perdure.effect) returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    insert into transition (lifecycle, id, round, version, state, attention, why, made_by, effect)
        select i.lifecycle, i.id, i.round,
            greatest(i.version, (select max(t.version) from transition t where t.lifecycle = i.lifecycle and t.id = i.id)) + 1,
            coalesce(x.state, i.final, 'starting'), x.attention, -- a row without a state: its run has entered none yet
            left(format('%s %s %s', e.effect, case when e.settled_by is null then 'became known as' else 'resolved as' end, e.status)
                || coalesce(': ' || nullif(e.why, ''), ''), 2100),
            e.settled_by, to_jsonb(e)
        from (select) one left join entity x on x.lifecycle = i.lifecycle and x.id = i.id;
end $$;

-- A time as text that every client can read, whatever the session's time zone: far from today a zone's offset has seconds.
create function perdure.utc(given timestamptz) returns text
language sql stable as $$
    select to_char(given at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

create or replace function perdure.effect_view(wanted text) returns jsonb
language plpgsql as $$
begin
    return (select jsonb_build_object(
        'status', status, 'token', token, 'attempts', attempts, 'version', version, 'first_at', perdure.utc(first_at),
        'since_first', extract(epoch from clock_timestamp() - first_at),
        'in_doubt_for', coalesce(extract(epoch from clock_timestamp() - perdure.in_doubt_since(e)), 0),
        'in_flight', extract(epoch from deadline - clock_timestamp()),
        'receipt', receipt, 'clue', clue, 'why', why)
    from perdure.effect e where key = wanted);
end $$;

-- Records what became of an effect that was in doubt when its entity ended (expired, cancelled). Returns its status.
create or replace function perdure.settle(lifecycle text, entity_id text, effect text, outcome text, made_by text, note text, receipt jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    e effect;
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.settle: made_by % or its note can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who settles it, in 1 to 200 characters, and why, in 2000 at most.', errcode = 'invalid_parameter_value';
    end if;
    perform check_payload('settle', settle.receipt);
    select * into i from ident x where x.lifecycle = settle.lifecycle and x.id = entity_id for no key update;
    select * into e from effect x where x.lifecycle = settle.lifecycle and x.id = entity_id
        and (x.effect = settle.effect or x.key = settle.effect or settle.effect is null)
        and x.status in ('attempting', 'in_doubt') order by x.first_at limit 1;
    if e.key is null then
        raise exception 'perdure.settle: nothing of %/% is in doubt', settle.lifecycle, entity_id
            using hint = 'Its effects stand in perdure.effect.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if i.final is null then
        raise exception 'perdure.settle: %/% is still open', settle.lifecycle, entity_id
            using hint = 'Send its workflow the update resolve.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if outcome not in ('done', 'not_done', 'abandoned') or outcome is null then
        raise exception 'perdure.settle: % is no outcome', coalesce(quote_literal(outcome), 'null')
            using hint = 'Say done, not_done or abandoned.', errcode = 'invalid_parameter_value';
    end if;
    update effect x set status = outcome, receipt = coalesce(settle.receipt, x.receipt), why = note, settled_by = made_by
        where x.key = e.key returning * into e;
    perform note_effect(i, e);
    return outcome;
end $$;

-- One write and its answer; see perdure/store/writes.py for both shapes. Null: somebody else holds the entity now, and
-- nothing was done. It does not wait for them: so no batch waits for one entity, and no two batches for each other.
create or replace function perdure.apply_write(w jsonb) returns jsonb
language plpgsql as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    f jsonb := nullif(w->'fence', 'null');
    m jsonb := nullif(w->'move', 'null');
    wanted bigint := (w->>'version')::bigint;
    i perdure.ident;
    gate text := 'open';
    verdict text;
    shown text;
    standing text;
    was jsonb;
    late perdure.effect;
begin
    -- The row of `ident` is the entity's lock: fence, mirror and follower all take it first.
    select * into i from perdure.ident where lifecycle = l and id = e for no key update skip locked;
    if not found then
        -- Looked for first: an insert would wait for whoever changes the row now, as it does for whoever just inserts it.
        if not exists (select from perdure.ident where lifecycle = l and id = e) then
            perform set_config('lock_timeout', '100ms', true);
            insert into perdure.ident (lifecycle, id, round) values (l, e, (w->>'round')::int) on conflict do nothing returning * into i;
        end if;
        if i.id is null then
            return null;
        end if;
    end if;

    if i.round <> (w->>'round')::int then
        gate := 'other_round';
    elsif i.final is not null and not (wanted = i.version and coalesce(m->>'state' = i.final, false)) then
        gate := 'final';
    elsif wanted < i.version then
        gate := 'late';
    elsif wanted = i.version and m is not null and i.final is null then
        select state into standing from perdure.entity where lifecycle = l and id = e;
        if standing is distinct from m->>'state' then
            gate := 'late';
        end if;
    end if;

    if f->>'op' = 'begin' then
        -- The reply to this very execution's commit was lost: it may go, unless somebody has settled it since.
        if exists (select from perdure.effect where key = f->>'key' and token = f->>'token'
                and status in ('attempting', 'in_doubt')) then
            verdict := 'mine';
        elsif gate in ('open', 'late') then -- late is its move only: the fence has a version of its own
            verdict := perdure.begin_attempt(w);
        end if;
    elsif f is not null and gate in ('final', 'other_round') then
        select to_jsonb(x) - 'version' into was from perdure.effect x where key = f->>'key';
        verdict := perdure.work_fence(w);
        select * into late from perdure.effect where key = f->>'key';
        if to_jsonb(late) - 'version' is distinct from was then
            perform perdure.note_effect(i, late);
        end if;
    elsif f is not null then
        verdict := perdure.work_fence(w);
    end if;

    if m is not null and gate = 'open' and wanted > i.version
        and (f is null or f->>'op' <> 'begin' or verdict = 'fresh') then
        shown := perdure.apply_move(w);
        i.version := wanted;
        standing := m->>'state';
    else
        standing := coalesce(i.final, (select state from perdure.entity where lifecycle = l and id = e));
    end if;

    return jsonb_build_object(
        'gate', gate, 'round', i.round, 'version', i.version, 'verdict', verdict, 'column', shown, 'state', standing,
        'effect', case when f is not null then perdure.effect_view(f->>'key') end);
end $$;

-- Starts the lifecycle of an entity: 'started', 'open' (it runs already) or 'finished' (it has ended). Priority 1 goes first.
create or replace function perdure.start(lifecycle text, entity_id text, input jsonb, tenant text default null,
    traceparent text default null, not_before timestamptz default null, priority int default 3)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    perform check_entity('start', start.lifecycle, entity_id);
    perform check_payload('start', input);
    perform check_time('start', start.not_before);
    if coalesce(start.priority, 0) not between 1 and 5 then
        raise exception 'perdure.start: % is not a priority', coalesce(start.priority::text, 'null')
            using hint = 'Give 1 (first) to 5; 3 where it does not matter.', errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into ident (lifecycle, id, tenant) values (start.lifecycle, entity_id, start.tenant) on conflict do nothing;
        exit when found;
        i := keep_ident(start.lifecycle, entity_id);
        if i.id is not null then -- else a rejected start of it was dropped meanwhile
            return case when i.final is null then 'open' else 'finished' end;
        end if;
    end loop;
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (start.lifecycle, entity_id, 0, 'starting', start.input, start.tenant);
    insert into transition (lifecycle, id, round, version, state) values (start.lifecycle, entity_id, 0, 0, 'starting');
    insert into outbox (lifecycle, id, round, kind, traceparent, not_before, wanted_at, priority)
        values (start.lifecycle, entity_id, 0, 'start', checked_traceparent(start.traceparent),
            greatest(clock_timestamp(), start.not_before), start.not_before, start.priority);
    return 'started';
end $$;

-- Runs a finished entity again, as a new round with new keys. Returns the round.
create or replace function perdure.restart(lifecycle text, entity_id text, made_by text, note text,
    input jsonb default null, traceparent text default null)
returns int language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    doubtful text;
    last finished;
begin
    select * into i from ident x where x.lifecycle = restart.lifecycle and x.id = entity_id for no key update;
    if not found then
        raise exception 'perdure.restart: there is no %/%', restart.lifecycle, entity_id
            using hint = 'perdure.start starts it for the first time.', errcode = 'no_data_found';
    end if;
    if i.final is null then
        raise exception 'perdure.restart: %/% is still open', restart.lifecycle, entity_id
            using hint = 'Only a finished entity can be restarted; retry_now or cancel it.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select key into doubtful from effect x where x.lifecycle = restart.lifecycle and x.id = entity_id
        and status in ('attempting', 'in_doubt') limit 1;
    if found then
        raise exception 'perdure.restart: whether % happened is not known', quote_literal(doubtful)
            using hint = 'Resolve that effect first, else it could happen twice.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select * into last from finished x where x.lifecycle = restart.lifecycle and x.id = entity_id order by finished_at desc limit 1;
    if last.input is null and restart.input is null then
        raise exception 'perdure.restart: the input of %/% is no longer on record', restart.lifecycle, entity_id
            using hint = 'Give it again: input => ...', errcode = 'no_data_found';
    end if;
    update ident x set round = i.round + 1, version = i.version + 1, final = null
        where x.lifecycle = restart.lifecycle and x.id = entity_id;
    delete from behind b where b.lifecycle = restart.lifecycle and b.id = entity_id; -- the last round's
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (restart.lifecycle, entity_id, i.round + 1, 'starting', coalesce(restart.input, last.input),
            coalesce(i.tenant, last.tenant));
    insert into transition (lifecycle, id, round, version, state, why, made_by)
        values (restart.lifecycle, entity_id, i.round + 1, i.version + 1, 'starting', note, restart.made_by);
    insert into outbox (lifecycle, id, round, kind, traceparent)
        values (restart.lifecycle, entity_id, i.round + 1, 'start', checked_traceparent(restart.traceparent));
    return i.round + 1;
end $$;

-- Starts the lifecycle of a row of work that was there before perdure: as perdure.start does. `effect_key` is given where an
-- older job may have begun the effect: then it counts as in doubt, and may be in flight for `timeout` more. So the first
-- attempt meets what stands, and the effect's doubt policy has the word. `since` null = begun so long ago that nobody remembers it.
create or replace function perdure.adopt(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    now_at timestamptz;
    own text;
    answer text;
begin
    if (adopt.effect is null) <> (adopt.effect_key is null) or adopt.timeout is null or octet_length(effect_key) > 2600
        or adopt.timeout not between interval '0' and interval '36500 days'
    then
        raise exception 'perdure.adopt: effect %, effect_key %, timeout % can not be used', adopt.effect, left(effect_key, 60), adopt.timeout
            using hint = 'Give an effect with its key (2600 bytes at most) and its time-out (36500 days at most), or neither.',
                errcode = 'invalid_parameter_value';
    end if;
    own := format('%s/%s/', adopt.lifecycle, replace(replace(replace(entity_id, '%', '%25'), '/', '%2F'), '~', '%7E'));
    if effect_key is not null and (not starts_with(effect_key, own) or effect_key = own) then
        raise exception 'perdure.adopt: % is no key of an effect of %/%', quote_literal(left(effect_key, 60)), adopt.lifecycle, entity_id
            using hint = 'Give the key that the effect will have: lifecycle/id/effect or lifecycle/id/effect/suffix, with each %, / and ~ of the id percent-encoded.',
                errcode = 'invalid_parameter_value';
    end if;
    perform check_instant('adopt', 'since', adopt.since);
    answer := perdure.start(adopt.lifecycle, entity_id, adopt.input, priority => adopt.priority);
    now_at := clock_timestamp();
    if answer = 'started' and effect_key is not null then
        insert into effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (effect_key, adopt.lifecycle, entity_id, 0, adopt.effect, gen_random_uuid()::text, 'in_doubt', '',
                case when adopt.since is null then 'epoch' else least(adopt.since, now_at) end, least(adopt.since, now_at), now_at + adopt.timeout,
                'adopted while processing')
            on conflict do nothing;
        if not found then
            raise exception 'perdure.adopt: there is a record of % already', quote_literal(left(effect_key, 60))
                using hint = 'Give the key that the effect of this entity will have.', errcode = 'unique_violation';
        end if;
    end if;
    return answer;
end $$;

-- Erases what is on record of a finished entity, but that it finished. Returns how many rows went, by table. Its workflow's
-- history in Temporal, archives and the app's own row are not reached from here.
create or replace function perdure.forget(lifecycle text, entity_id text, made_by text) returns jsonb
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
    update ident x set tenant = null where x.lifecycle = i.lifecycle and x.id = i.id;
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
        from generate_subscripts(found_here, 1) n cross join lateral (select n, (found_here[n]).*) x
        where x.n <= most order by x.n;
end $$;

revoke all on all functions in schema perdure from public;
