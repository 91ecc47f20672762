-- Prevents an attempt that is lost, has no answer, or was ordered by a lost workflow task, from beginning later. An effect without a
-- record gets one: it was not done. After the end of its entity, which may be forgotten, none begins in any case.
create or replace function perdure.bar_attempts(w jsonb) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    now_at timestamptz := clock_timestamp();
begin
    if exists (select from perdure.ident i where i.lifecycle = w->>'lifecycle' and i.id = w->>'id'
            and (i.generation, i.final is not null) >= ((w->>'generation')::int, true)) then
        update perdure.effect set version = greatest(version, (w->>'version')::bigint) where key = f->>'key';
        return;
    end if;
    insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, attempts, first_at, attempt_at, deadline,
            why, version)
        values (f->>'key', w->>'lifecycle', w->>'id', (w->>'generation')::int, f->>'effect', f->>'token', 'not_done', '', 0,
            now_at, now_at, now_at, f->>'why', (w->>'version')::bigint)
        on conflict (key) do update set version = greatest(effect.version, excluded.version);
end $$;
