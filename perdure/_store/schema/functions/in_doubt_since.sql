-- Begin of the first attempt in doubt; null = none. A single attempt began at `first_at`, because the attempt of an old job, or of a
-- lost record, has another `attempt_at`.
create or replace function perdure.in_doubt_since(e perdure.effect) returns timestamptz
language sql immutable set search_path = perdure, pg_temp as $$
    select case when e.status in ('attempting', 'in_doubt')
        then coalesce(e.earlier_doubt, case when e.attempts = 1 then e.first_at else e.attempt_at end) end
$$;
