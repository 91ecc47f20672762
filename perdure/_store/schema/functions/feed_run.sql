-- One start of the server. Within one nothing can have been put back.
create or replace function perdure.feed_run() returns text
language sql stable set search_path = perdure, pg_temp
return substr(md5(extract(epoch from pg_postmaster_start_time())::text), 1, 8);
