-- The name of a lifecycle, or of its signal, as part of a sentence, with the most similar other name that a worker has.
-- A worker that has ended is on record for a while, and may be the last one that had this name.
create or replace function perdure.name_unknown(lifecycle text, signal text) returns text
language plpgsql stable set search_path = perdure, pg_temp as $$
declare
    near text := case when signal is null
        then nearest(name_unknown.lifecycle, (
            select array_agg(distinct l) from relay r, unnest(r.lifecycles) l where l <> name_unknown.lifecycle))
        else nearest(signal, (
            select array_agg(distinct substr(s, length(name_unknown.lifecycle) + 2))
            from relay r, unnest(r.signals) s
            where starts_with(s, name_unknown.lifecycle || '.') and s <> name_unknown.lifecycle || '.' || signal))
        end;
begin
    return case when signal is null then format('a lifecycle named %L', name_unknown.lifecycle)
        else format('a handler of %s for the signal %L', name_unknown.lifecycle, signal) end
        || coalesce('; did you mean ' || quote_literal(near) || '?', '');
end $$;
