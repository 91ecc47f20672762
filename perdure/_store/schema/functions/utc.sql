-- A time as text in UTC, which every client can read. In other zones, the offset of a distant time may have seconds.
create or replace function perdure.utc(given timestamptz) returns text
language sql stable set search_path = perdure, pg_temp as $$
    select to_char(given at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
