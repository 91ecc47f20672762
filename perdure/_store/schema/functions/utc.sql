-- A time as text that every client can read, whatever the session's time zone: far from today a zone's offset has seconds.
create or replace function perdure.utc(given timestamptz) returns text
language sql stable set search_path = perdure, pg_temp as $$
    select to_char(given at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
