-- The search path that this session would have without Perdure: the one to which it is reset. `pg_settings` shows it too, and
-- computes all settings for that.
create or replace function perdure.path_of_session() returns text
language plpgsql set search_path = perdure, pg_temp as $$
begin
    set local search_path to default;
    return pg_catalog.current_setting('search_path');
end $$;
