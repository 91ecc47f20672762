-- The role whose permissions apply: the role of SET ROLE, else the authenticated one. A function with the rights of its owner does
-- not change it.
create or replace function perdure.asking_role() returns text
language sql stable set search_path = perdure, pg_temp
return coalesce(nullif(current_setting('role'), 'none'), session_user::text);
