-- Refuses a `not_before` that not every reader can represent.
create or replace function perdure.check_time(verb text, not_before timestamptz) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    perform check_instant(verb, 'not_before', not_before);
end $$;
