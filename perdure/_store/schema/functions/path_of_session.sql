-- The search path that this session would have without Perdure.
create or replace function perdure.path_of_session() returns text
language sql stable set search_path = perdure, pg_temp
return (select s.reset_val from pg_settings s where s.name = 'search_path');
