-- The name of a lifecycle, or of its signal, as part of a sentence, with the most similar name that a running worker has.
create or replace function perdure.name_unknown(lifecycle text, signal text) returns text
language plpgsql stable set search_path = perdure, pg_temp as $$
declare
    live relay[] := array(select r from relay r where r.seen_at > clock_timestamp() - interval '1 minute');
    near text := case when signal is null
        then nearest(name_unknown.lifecycle, (select array_agg(distinct l) from unnest(live) r, unnest(r.lifecycles) l))
        else nearest(signal, (
            select array_agg(distinct substr(s, length(name_unknown.lifecycle) + 2))
            from unnest(live) r, unnest(r.signals) s where starts_with(s, name_unknown.lifecycle || '.')))
        end;
begin
    return case when signal is null then format('a lifecycle named %L', name_unknown.lifecycle)
        else format('a handler of %s for the signal %L', name_unknown.lifecycle, signal) end
        || coalesce('; did you mean ' || quote_literal(near) || '?', '');
end $$;
