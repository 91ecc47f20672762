-- Refuses a time before which nothing may be delivered, if not every reader could hold it.
create or replace function perdure.check_time(verb text, not_before timestamptz) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    perform check_instant(verb, 'not_before', not_before);
end $$;
