-- Applies a batch in the given order, all writes or none, except those of entities that another session holds. A reply means that
-- the batch is on disk: otherwise a crash could lose the record of an attempt, and the effect would be done twice (invariant 2).
create or replace function perdure.apply_writes(batch jsonb) returns setof jsonb
language plpgsql set search_path = perdure, pg_temp as $$
declare
    w jsonb;
begin
    perform perdure.check_database();
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    for w in select value from jsonb_array_elements(batch) loop
        return next perdure.apply_write(w);
    end loop;
end $$;
