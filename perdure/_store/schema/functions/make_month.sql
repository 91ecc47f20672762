-- Makes the partitions of one month, unless it was dropped. Returns how many it made. A month that is not over was dropped by a clock
-- that was ahead, and is made again: without it, nothing could be written.
create or replace function perdure.make_month(first_day date) returns int
language plpgsql set search_path = perdure, pg_temp as $$
declare
    made int := 0;
    parent text;
    child text;
    name text;
begin
    update month m set dropping_at = null, clearing_at = null, dropped_at = null, exported_at = null
        where m.month = first_day and m.dropped_at is not null
            and first_day + interval '1 month' > clock_timestamp() at time zone 'UTC';
    if exists (select from month m where m.month = first_day and m.dropping_at is not null) then
        return 0;
    end if;
    foreach parent in array array['finished', 'transition'] loop
        child := parent || '_' || to_char(first_day, 'YYYY_MM');
        if to_regclass(format('perdure.%I', child)) is null then
            -- Created apart and attached: `partition of` would wait for every transaction that has written here, and
            -- later sessions would wait behind it.
            execute format('create table perdure.%I (like perdure.%I including all)', child, parent);
            for name in select attname from pg_attribute a -- `like` does not copy this; up to PostgreSQL 16 system columns have 0
                where a.attrelid = format('perdure.%I', parent)::regclass and a.attstattarget = 0
                    and a.attnum > 0 and not a.attisdropped
            loop
                execute format('alter table perdure.%I alter column %I set statistics 0', child, name);
            end loop;
            execute format('alter table perdure.%I attach partition perdure.%I for values from (%L) to (%L)', parent, child,
                first_day::text || ' 00:00:00+00', (first_day + interval '1 month')::date::text || ' 00:00:00+00');
            made := made + 1;
        end if;
    end loop;
    return made;
end $$;
