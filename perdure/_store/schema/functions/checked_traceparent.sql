-- W3C Trace Context, 3.2. A malformed value is left out, because a trace must not fail a transaction of the app.
create or replace function perdure.checked_traceparent(given text) returns text
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    return case when given ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
        and substr(given, 4, 32) <> repeat('0', 32) and substr(given, 37, 16) <> repeat('0', 16) then given end;
end $$;
