-- Makes the partitions of this month and the next `ahead` ones; safe to call at any time. One session at a time: it locks
-- a table, which needs a right on it, and which no other work locks.
create or replace function perdure.make_months(ahead int default 24) returns int
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    made int := 0;
begin
    lock table perdure.migration in share row exclusive mode;
    -- UTC, so that servers in any zone have the same months; one month back, because clocks may differ.
    for months in -1..ahead loop
        made := made + make_month(
            (date_trunc('month', clock_timestamp() at time zone 'UTC') + make_interval(months => months))::date);
    end loop;
    return made;
end $$;
