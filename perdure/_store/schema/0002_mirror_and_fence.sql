-- The one write of a running lifecycle: gate, fence, mirror, app column. Each step sees what the one before it
-- and every other transaction committed (as one statement of CTEs, raced entities ended final *and* open).
-- Names are qualified instead of a fixed search_path, so that the app's own path finds its table.

create function perdure.effect_view(wanted text) returns jsonb
language plpgsql as $$
begin
    return (select jsonb_build_object(
        'status', status, 'token', token, 'attempts', attempts, 'first_at', first_at,
        'since_first', extract(epoch from clock_timestamp() - first_at),
        'in_flight', extract(epoch from deadline - clock_timestamp()),
        'receipt', receipt, 'clue', clue, 'why', why)
    from perdure.effect where key = wanted);
end $$;

-- Shows `state` in the app's own row unless the app holds that row: 'written', 'behind' or 'missing'.
create function perdure.show_in_app(target text, key_column text, state_column text, entity_id text, shown text)
returns text language plpgsql as $$
declare
    app_table regclass := target::regclass;
    changed int;
    present boolean;
begin
    execute format(
        'update %1$s set %2$I = %3$L where %4$I = (select %4$I from %1$s where %4$I = %5$L for no key update skip locked)',
        app_table, state_column, shown, key_column, entity_id);
    get diagnostics changed = row_count;
    if changed > 0 then
        return 'written';
    end if;
    execute format('select exists (select from %s where %I = %L)', app_table, key_column, entity_id) into present;
    return case when present then 'behind' else 'missing' end;
end $$;

-- Applies the mirror part. The caller holds the row of `ident`.
create function perdure.apply_move(w jsonb) returns text
language plpgsql as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    m jsonb := w->'move';
    c jsonb := nullif(w->'column', 'null');
    is_final boolean := coalesce((m->>'final')::boolean, false);
    now_at timestamptz := clock_timestamp();
    old perdure.entity;
    shown text;
begin
    update perdure.ident set version = (w->>'version')::bigint, final = case when is_final then m->>'state' end
        where lifecycle = l and id = e;
    insert into perdure.transition (lifecycle, id, round, version, state, attention, why, made_by, at)
        values (l, e, (w->>'round')::int, (w->>'version')::bigint, m->>'state', m->>'attention', m->>'why', m->>'by', now_at);
    if is_final then
        delete from perdure.entity where lifecycle = l and id = e returning * into old;
        insert into perdure.finished (lifecycle, id, round, state, why, input, snapshot, tenant, workflow_id, created_at, finished_at)
            values (l, e, (w->>'round')::int, m->>'state', m->>'why', coalesce(old.input, nullif(w->'input', 'null')),
                coalesce(nullif(m->'snapshot', 'null'), old.snapshot), old.tenant, w->>'workflow_id',
                coalesce(old.created_at, now_at), now_at);
    else
        insert into perdure.entity as x (lifecycle, id, round, state, since, stuck_at, attention, input, snapshot, workflow_id)
            values (l, e, (w->>'round')::int, m->>'state', now_at, now_at + make_interval(secs => (m->>'within')::float),
                m->>'attention', nullif(w->'input', 'null'), nullif(m->'snapshot', 'null'), w->>'workflow_id')
            on conflict (lifecycle, id) do update set
                state = excluded.state,
                since = case when x.state = excluded.state then x.since else excluded.since end,
                stuck_at = case when x.state = excluded.state then x.stuck_at else excluded.stuck_at end,
                attention = excluded.attention,
                snapshot = coalesce(excluded.snapshot, x.snapshot),
                input = coalesce(x.input, excluded.input),
                workflow_id = excluded.workflow_id;
    end if;
    if c is null then
        return null;
    end if;
    if w->>'column_error' is null then
        shown := perdure.show_in_app(c->>'table', c->>'key', c->>'column', e, m->>'state');
    else
        shown := 'behind';
    end if;
    if shown = 'behind' then
        insert into perdure.behind as b (lifecycle, id, app_table, app_column, app_key, error)
            values (l, e, c->>'table', c->>'column', c->>'key', w->>'column_error')
            on conflict (lifecycle, id) do update set error = excluded.error, next_try = clock_timestamp();
    end if;
    return shown;
end $$;

-- Puts an attempt on record, or says what stands. The caller holds the row of `ident`, so nobody races us here.
create function perdure.begin_attempt(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    now_at timestamptz := clock_timestamp();
    ends timestamptz := now_at + make_interval(secs => (f->>'in_flight')::float);
begin
    select * into old from perdure.effect where key = f->>'key';
    if not found then
        insert into perdure.effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline)
            values (f->>'key', w->>'lifecycle', w->>'id', (w->>'round')::int, f->>'effect', f->>'token', 'attempting',
                f->>'digest', now_at, now_at, ends);
        return 'fresh';
    end if;
    if old.status in ('done', 'refused', 'abandoned') then
        return 'standing';
    elsif old.digest <> f->>'digest' then
        return 'different';
    elsif old.status = 'not_done' or old.token = f->>'after' then
        update perdure.effect set token = f->>'token', status = 'attempting', attempts = attempts + 1,
            attempt_at = now_at, deadline = ends, why = null where key = old.key;
        return 'fresh';
    end if;
    return 'standing';
end $$;

-- What became of an attempt. `done` always wins; any other word needs the current token.
create function perdure.settle_attempt(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    said text := f->>'status';
begin
    select * into old from perdure.effect where key = f->>'key';
    if not found or old.status = 'done' then
        return 'standing';
    end if;
    if said = 'done' then
        update perdure.effect set status = 'done', receipt = nullif(f->'receipt', 'null'), why = f->>'why', settled_by = f->>'by'
            where key = old.key;
        -- It came late: whoever took it for lost, parked or gave it up must hear of it.
        if old.token <> f->>'token' or old.status <> 'attempting' then
            insert into perdure.outbox (lifecycle, id, round, kind, body)
                select w->>'lifecycle', w->>'id', (w->>'round')::int, 'wake', jsonb_build_object('key', old.key)
                where f->>'by' is null and exists (
                    select from perdure.ident where lifecycle = w->>'lifecycle' and id = w->>'id'
                        and round = (w->>'round')::int and final is null);
        end if;
        return 'stored';
    end if;
    if old.token <> f->>'token' or old.status not in ('attempting', 'in_doubt') then
        return 'standing';
    end if;
    update perdure.effect set status = said, why = f->>'why', settled_by = f->>'by' where key = old.key;
    return 'stored';
end $$;

create function perdure.work_fence(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
begin
    case f->>'op'
        when 'outcome', 'resolve' then
            return perdure.settle_attempt(w);
        when 'note' then
            update perdure.effect set clue = f->'clue' where key = f->>'key' and token = f->>'token';
            return case when found then 'stored' else 'standing' end;
        when 'lost' then
            update perdure.effect set status = 'in_doubt', why = f->>'why' where key = f->>'key' and status = 'attempting';
            return 'standing';
        else
            return 'standing';
    end case;
end $$;

-- One write and its answer; see perdure/store/writes.py for both shapes. Null: somebody else holds the entity now, and
-- nothing was done. It does not wait for them: so no batch waits for one entity, and no two batches for each other.
create function perdure.apply_write(w jsonb) returns jsonb
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
        elsif gate = 'open' then
            verdict := perdure.begin_attempt(w);
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

-- A batch, in the order given, all or none but for the entities that somebody else holds.
create function perdure.apply_writes(batch jsonb) returns setof jsonb
language plpgsql as $$
declare
    w jsonb;
begin
    for w in select value from jsonb_array_elements(batch) loop
        return next perdure.apply_write(w);
    end loop;
end $$;

-- Brings app rows up to date that were held or refused it. Returns how many are settled, and how many wait.
create function perdure.follow(most int default 100, out settled int, out waiting int)
language plpgsql as $$
declare
    b perdure.behind;
    now_shows text;
    shown text;
    trouble text;
begin
    settled := 0;
    -- An entity that a write holds now is left for the next time: waiting for it here could deadlock.
    for b in select waits.* from perdure.behind waits join perdure.ident using (lifecycle, id)
        where next_try <= clock_timestamp() order by next_try limit most for no key update skip locked
    loop
        select coalesce(i.final, x.state) into now_shows
            from perdure.ident i left join perdure.entity x using (lifecycle, id) where i.lifecycle = b.lifecycle and i.id = b.id;
        trouble := null;
        begin
            shown := perdure.show_in_app(b.app_table, b.app_key, b.app_column, b.id, now_shows);
        exception when others then
            trouble := sqlerrm;
        end;
        if trouble is null and shown <> 'behind' then
            delete from perdure.behind where lifecycle = b.lifecycle and id = b.id;
            settled := settled + 1;
        else
            update perdure.behind set error = trouble,
                next_try = clock_timestamp() + case when trouble is null then interval '100 ms' else interval '1 minute' end
                where lifecycle = b.lifecycle and id = b.id;
        end if;
    end loop;
    select count(*) into waiting from (select from perdure.behind limit 1000) few;
end $$;
