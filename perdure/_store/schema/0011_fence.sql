-- The fence judges when an attempt may begin, by the database's clock, and keeps a doubt until something is known about it.

-- Of the newest write about the effect: no attempt begins that was ordered before it.
alter table perdure.effect add column version bigint not null default 0;
-- When the first attempt was begun, of those before the current one, of which nobody knows whether it happened; null = there is none.
alter table perdure.effect add column earlier_doubt timestamptz;

-- When the first attempt was begun of which nobody knows whether it happened; null = there is none. An only attempt was begun
-- at `first_at`: that of an old job, or of a lost record, has another `attempt_at`.
create function perdure.in_doubt_since(e perdure.effect) returns timestamptz
language sql immutable as $$
    select case when e.status in ('attempting', 'in_doubt')
        then coalesce(e.earlier_doubt, case when e.attempts = 1 then e.first_at else e.attempt_at end) end
$$;

create or replace function perdure.effect_view(wanted text) returns jsonb
language plpgsql as $$
begin
    return (select jsonb_build_object(
        'status', status, 'token', token, 'attempts', attempts, 'version', version, 'first_at', first_at,
        'since_first', extract(epoch from clock_timestamp() - first_at),
        'in_doubt_for', coalesce(extract(epoch from clock_timestamp() - perdure.in_doubt_since(e)), 0),
        'in_flight', extract(epoch from deadline - clock_timestamp()),
        'receipt', receipt, 'clue', clue, 'why', why)
    from perdure.effect e where key = wanted);
end $$;

-- Puts an attempt on record, or says what stands. A digest of '' = nobody knows what that attempt was given. The caller
-- holds the row of `ident`, so nobody races us here.
create or replace function perdure.begin_attempt(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    now_at timestamptz := clock_timestamp();
    ends timestamptz := now_at + make_interval(secs => (f->>'in_flight')::float);
    doubt timestamptz;
begin
    select * into old from perdure.effect where key = f->>'key';
    if not found then
        if perdure.doubt_lost_record(w) then
            return 'standing';
        end if;
        insert into perdure.effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline, version)
            values (f->>'key', w->>'lifecycle', w->>'id', (w->>'round')::int, f->>'effect', f->>'token', 'attempting',
                f->>'digest', now_at, now_at, ends, (w->>'version')::bigint);
        return 'fresh';
    end if;
    if old.status in ('done', 'refused', 'abandoned') or (w->>'version')::bigint <= old.version then
        return 'standing';
    elsif old.digest not in ('', f->>'digest') then
        return 'different';
    end if;
    if old.status <> 'not_done' then
        if old.token is distinct from f->>'after' then
            return 'standing';
        end if;
        doubt := perdure.in_doubt_since(old);
        if extract(epoch from now_at - doubt) >= (f->>'within')::float then
            return 'over';
        end if;
    end if;
    update perdure.effect set token = f->>'token', status = 'attempting', attempts = attempts + 1, digest = f->>'digest',
        first_at = case when attempts = 0 then now_at else first_at end, attempt_at = now_at, why = null,
        deadline = case when doubt is null then ends else greatest(deadline, ends) end,
        version = (w->>'version')::bigint, earlier_doubt = doubt where key = old.key;
    return 'fresh';
end $$;

-- There is no record of an effect whose attempt was lost or gave no answer: from now on that attempt can't begin either.
create function perdure.bar_attempts(w jsonb) returns void
language plpgsql as $$
declare
    f jsonb := w->'fence';
    now_at timestamptz := clock_timestamp();
begin
    insert into perdure.effect (key, lifecycle, id, round, effect, token, status, digest, attempts, first_at, attempt_at, deadline,
            why, version)
        values (f->>'key', w->>'lifecycle', w->>'id', (w->>'round')::int, f->>'effect', f->>'token', 'not_done', '', 0,
            now_at, now_at, now_at, f->>'why', (w->>'version')::bigint);
end $$;

-- What became of an attempt. `done` always wins; any other word needs the current token. A no about this attempt is none
-- about an earlier one that is in doubt: the effect stays in doubt. Where the other side drops repeats (`within`), a refusal is
-- its answer to all of them.
create or replace function perdure.settle_attempt(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    said text := f->>'status';
    outcome boolean := f->>'op' = 'outcome';
begin
    select * into old from perdure.effect where key = f->>'key';
    if not found or old.status = 'done' then
        return 'standing';
    end if;
    if said <> 'done' and (old.token <> f->>'token' or old.status not in ('attempting', 'in_doubt')) then
        return 'standing';
    end if;
    if outcome and old.earlier_doubt is not null and (said = 'not_done' or said = 'refused' and f->>'within' is null) then
        said := 'in_doubt';
        f := f || jsonb_build_object('why', left(concat_ws('; ', f->>'why', 'an earlier attempt is in doubt'), 2000));
    end if;
    update perdure.effect set status = said, receipt = case when said = 'done' then nullif(f->'receipt', 'null') else receipt end,
        why = f->>'why', settled_by = f->>'by', version = greatest(version, (w->>'version')::bigint) where key = old.key;
    -- It came late: whoever took it for lost, parked or gave it up must hear of it.
    if said <> 'in_doubt' and (outcome or said = 'done') and (old.token <> f->>'token' or old.status <> 'attempting') then
        insert into perdure.outbox (lifecycle, id, round, kind, body)
            select w->>'lifecycle', w->>'id', (w->>'round')::int, 'wake', jsonb_build_object('key', old.key)
            where f->>'by' is null and exists (
                select from perdure.ident where lifecycle = w->>'lifecycle' and id = w->>'id'
                    and round = (w->>'round')::int and final is null);
    end if;
    return 'stored';
end $$;

create or replace function perdure.work_fence(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
begin
    if not exists (select from perdure.effect where key = f->>'key') then
        -- An outcome of before finds a record that was lost, too, and is settled below as one that comes late.
        if not (perdure.epoch() > 0 and perdure.doubt_lost_record(w))
            and (f->>'op' = 'lost' or f->>'op' = 'outcome' and f->>'status' = 'not_done') then
            perform perdure.bar_attempts(w);
            return 'standing';
        end if;
    end if;
    case f->>'op'
        when 'outcome', 'resolve' then
            return perdure.settle_attempt(w);
        when 'note' then
            update perdure.effect set clue = f->'clue' where key = f->>'key' and token = f->>'token';
            return case when found then 'stored' else 'standing' end;
        when 'lost' then
            update perdure.effect set version = greatest(version, (w->>'version')::bigint),
                status = case when status = 'attempting' then 'in_doubt' else status end,
                why = case when status = 'attempting' then f->>'why' else why end where key = f->>'key';
            return 'standing';
        else
            return 'standing';
    end case;
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

-- What a run that has no history goes on from; see perdure/recovering/record.py. Null: the entity is not open in that round.
create or replace function perdure.record_of(lifecycle text, entity_id text, round int) returns jsonb
language plpgsql stable set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    return (select jsonb_build_object(
        'at', clock_timestamp(), 'state', e.state, 'since', e.since, 'created_at', e.created_at, 'snapshot', e.snapshot,
        'heard', e.heard, 'memory', e.memory,
        'expects', (
            select coalesce(max(m.ordinal), 0) from message m
            where m.lifecycle = e.lifecycle and m.id = e.id and m.round = e.round and m.ordinal > e.heard and m.kind <> 'dropped'
                and not exists (
                    select from rejected r where r.lifecycle = m.lifecycle and r.id = m.id and r.round = m.round
                        and r.message_id = m.message_id)),
        'again', (
            select coalesce(jsonb_object_agg(x.effect, x.again), '{}') from (
                select f.effect, max(substring(f.key from '~([0-9]+)$')::int) as again from effect f
                where f.lifecycle = e.lifecycle and f.id = e.id and f.round = e.round group by f.effect) x
            where x.again > 0),
        'doubts', (
            select coalesce(jsonb_agg(jsonb_build_object('key', f.key, 'view', perdure.effect_view(f.key))), '[]') from effect f
            where f.lifecycle = e.lifecycle and f.id = e.id and f.round = e.round and f.status in ('attempting', 'in_doubt')))
        from entity e where e.lifecycle = record_of.lifecycle and e.id = entity_id and e.round = record_of.round);
end $$;

revoke all on all functions in schema perdure from public;
