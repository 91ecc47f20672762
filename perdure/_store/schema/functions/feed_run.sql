-- Identifies one start of the server. Within one start, the database cannot have been restored.
create or replace function perdure.feed_run() returns text
language sql stable set search_path = perdure, pg_temp
return substr(md5(extract(epoch from pg_postmaster_start_time())::text), 1, 8);
