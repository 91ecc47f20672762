-- The full name of a table of the app, as the path of the session resolves it; null where there is none.
create or replace function perdure.app_table(given text) returns text
language plpgsql set search_path = perdure, pg_temp as $$
declare
    found_table oid;
begin
    perform set_config('search_path', perdure.path_of_session(), true);
    found_table := pg_catalog.to_regclass(given);
    perform pg_catalog.set_config('search_path', 'perdure, pg_temp', true);
    return (select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = found_table);
end $$;
