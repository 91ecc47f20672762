-- One write and its answer; see perdure/_wire/writes.py for both shapes. Null: another session holds the entity's lock now, and
-- nothing was done. The function never waits for a lock, so no batch waits for one entity, and no two batches wait for each other.
create or replace function perdure.apply_write(w jsonb) returns jsonb
language plpgsql set search_path = perdure, pg_temp as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    f jsonb := nullif(w->'fence', 'null');
    m jsonb := nullif(w->'move', 'null');
    wanted bigint := (w->>'version')::bigint;
    i perdure.ident;
    gate text := 'open';
    verdict text;
    moves boolean;
    unsettled jsonb;
    newest bigint;
    standing text;
    was jsonb;
    late perdure.effect;
begin
    -- The row of `ident` is the entity's lock: fence, mirror and follower all take it first.
    select * into i from perdure.ident where lifecycle = l and id = e for no key update skip locked;
    if not found then
        -- Select first: an insert would wait for a session that changes the row. It still waits for one that inserts the row.
        if not exists (select from perdure.ident where lifecycle = l and id = e) then
            perform set_config('lock_timeout', '100ms', true);
            insert into perdure.ident (lifecycle, id, generation) values (l, e, (w->>'generation')::int) on conflict do nothing returning * into i;
        end if;
        if i.id is null then
            return null;
        end if;
    end if;

    if i.generation = (w->>'generation')::int and perdure.is_other_entity(i, (w->>'born')::timestamptz) then
        return jsonb_build_object('gate', 'other_entity', 'generation', i.generation, 'version', i.version);
    end if;
    if i.generation <> (w->>'generation')::int then
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
        -- The reply to this execution's own commit was lost: the attempt may be made, unless it was settled since.
        if exists (select from perdure.effect where key = f->>'key' and token = f->>'token'
                and status in ('attempting', 'in_doubt')) then
            verdict := 'mine';
        elsif gate in ('open', 'late') then -- only the move is late: the fence has a version of its own
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

    moves := m is not null and gate = 'open' and wanted > i.version and (f is null or f->>'op' <> 'begin' or verdict = 'fresh');
    if moves and (m->>'final')::boolean and jsonb_typeof(m->'handled_doubts') = 'array' then
        select jsonb_object_agg(x.key, perdure.effect_view(x.key)) filter (where x.status in ('attempting', 'in_doubt')
                and not (m->'handled_doubts' ? x.key and x.version <= wanted)), -- a later run may have attempted it again
            max(x.version) into unsettled, newest from perdure.effect x
            where x.lifecycle = l and x.id = e and x.generation = i.generation;
        if unsettled is not null then
            gate := 'unsettled';
            moves := false;
        elsif newest > wanted then -- a lost workflow task has ordered this end, and the next one has begun an effect
            update perdure.ident set version = newest where lifecycle = l and id = e;
            i.version := newest;
            gate := 'late';
            moves := false;
        end if;
    end if;
    if moves then
        perform perdure.apply_move(w);
        i.version := wanted;
        standing := m->>'state';
    else
        standing := coalesce(i.final, (select state from perdure.entity where lifecycle = l and id = e));
    end if;

    return jsonb_build_object(
        'gate', gate, 'generation', i.generation, 'version', i.version, 'verdict', verdict, 'state', standing, 'unsettled', unsettled,
        'effect', case when f is not null then perdure.effect_view(f->>'key') end);
end $$;
