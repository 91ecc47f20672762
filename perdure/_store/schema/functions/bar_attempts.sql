-- Prevents an attempt that is lost, has no answer, or was ordered by a lost workflow task, from beginning later. An effect without a
-- record gets one: it was not done.
create or replace function perdure.bar_attempts(w jsonb) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    now_at timestamptz := clock_timestamp();
begin
    insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, attempts, first_at, attempt_at, deadline,
            why, version)
        values (f->>'key', w->>'lifecycle', w->>'id', (w->>'generation')::int, f->>'effect', f->>'token', 'not_done', '', 0,
            now_at, now_at, now_at, f->>'why', (w->>'version')::bigint)
        on conflict (key) do update set version = greatest(effect.version, excluded.version);
end $$;
