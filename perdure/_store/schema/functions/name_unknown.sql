-- How the name of a lifecycle, or of a signal of it, stands in a sentence.
create or replace function perdure.name_unknown(lifecycle text, signal text) returns text
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    return case when signal is null then format('a lifecycle named %L', name_unknown.lifecycle)
        else format('a handler of %s for the signal %L', name_unknown.lifecycle, signal) end;
end $$;
