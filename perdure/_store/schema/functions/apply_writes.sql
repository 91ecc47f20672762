-- A batch, in the order given, all or none but for the entities that somebody else holds. A reply means that it is on disk:
-- else the crash of one backend would lose the fence, and what it stands for would be done twice (invariant 2).
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
