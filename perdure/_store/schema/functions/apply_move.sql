-- Applies the mirror part of a write. The caller holds the row of `ident`.
create or replace function perdure.apply_move(w jsonb) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    m jsonb := w->'move';
    c perdure.app_column;
    is_final boolean := coalesce((m->>'final')::boolean, false);
    now_at timestamptz := clock_timestamp();
    born timestamptz := (w->>'born')::timestamptz;
    old perdure.entity;
    shown bigint;
begin
    update perdure.ident i set version = (w->>'version')::bigint, final = case when is_final then m->>'state' end,
            noted = case when i.noted >= (w->>'version')::bigint then i.noted + 1 end
        where i.lifecycle = l and i.id = e returning coalesce(i.noted, i.version) into shown;
    insert into perdure.transition (lifecycle, id, generation, version, state, attention, why, made_by, at)
        values (l, e, (w->>'generation')::int, shown, m->>'state', m->>'attention', m->>'why', m->>'by', now_at);
    if is_final then
        delete from perdure.entity where lifecycle = l and id = e returning * into old;
        insert into perdure.finished (lifecycle, id, generation, state, why, input, snapshot, tenant, workflow_id, created_at, finished_at)
            values (l, e, (w->>'generation')::int, m->>'state', m->>'why', coalesce(old.input, nullif(w->'input', 'null')),
                coalesce(nullif(m->'snapshot', 'null'), old.snapshot), old.tenant, w->>'workflow_id',
                coalesce(old.created_at, born, now_at), now_at);
        delete from perdure.message where lifecycle = l and id = e;
    else
        insert into perdure.entity as x (lifecycle, id, generation, state, since, stuck_at, attention, input, snapshot, memory,
                acknowledged, workflow_id, created_at)
            values (l, e, (w->>'generation')::int, m->>'state', now_at, now_at + make_interval(secs => (m->>'within')::float),
                m->>'attention', nullif(w->'input', 'null'), nullif(m->'snapshot', 'null'),
                nullif(m->'memory', 'null'), coalesce((m->>'acknowledged')::int, 0), w->>'workflow_id', coalesce(born, now_at))
            on conflict (lifecycle, id) do update set
                state = excluded.state,
                since = case when x.state = excluded.state then x.since else excluded.since end,
                stuck_at = case when x.state = excluded.state then x.stuck_at else excluded.stuck_at end,
                -- A rejected row needs a person until it is delivered again or dropped, whatever the run reports in the meantime.
                attention = coalesce(excluded.attention,
                    case when x.attention is not null then perdure.rejected_attention(l, e, x.generation) end),
                snapshot = coalesce(excluded.snapshot, x.snapshot),
                memory = excluded.memory,
                input = coalesce(x.input, excluded.input),
                -- A workflow task that is made again may write an older snapshot: the messages since are missing in it.
                acknowledged = case when excluded.snapshot is null then x.acknowledged else excluded.acknowledged end,
                workflow_id = excluded.workflow_id;
    end if;
    select * into c from perdure.app_column x where x.lifecycle = l;
    if found then
        insert into perdure.behind (lifecycle, id, version, app_table, app_column, app_key)
            values (l, e, (w->>'version')::bigint, c.app_table, c.state_column, c.key_column);
    end if;
end $$;
