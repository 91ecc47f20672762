-- When the first attempt was begun of which nobody knows whether it happened; null = there is none. An only attempt was begun
-- at `first_at`: that of an old job, or of a lost record, has another `attempt_at`.
create or replace function perdure.in_doubt_since(e perdure.effect) returns timestamptz
language sql immutable set search_path = perdure, pg_temp as $$
    select case when e.status in ('attempting', 'in_doubt')
        then coalesce(e.earlier_doubt, case when e.attempts = 1 then e.first_at else e.attempt_at end) end
$$;
