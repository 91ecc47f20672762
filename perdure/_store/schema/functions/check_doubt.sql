-- Refuses an effect of a row of work from before Perdure whose record no worker could use.
create or replace function perdure.check_doubt(lifecycle text, entity_id text, effect text, effect_key text, timeout interval) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
declare
    own text := format('%s/%s/', lifecycle, replace(replace(replace(entity_id, '%', '%25'), '/', '%2F'), '~', '%7E'));
begin
    if effect is null or effect_key is null or timeout is null or octet_length(effect_key) > 2600
        or timeout not between interval '0' and interval '36500 days'
    then
        raise exception 'perdure.import_row: effect %, effect_key %, timeout % can not be used', effect, left(effect_key, 60), timeout
            using hint = 'Give an effect with its key (2600 bytes at most) and its time-out (36500 days at most), or neither.',
                errcode = 'invalid_parameter_value';
    end if;
    if not starts_with(effect_key, own) or effect_key = own then
        raise exception 'perdure.import_row: % is no key of an effect of %/%', quote_literal(left(effect_key, 60)), lifecycle, entity_id
            using hint = 'Give the key that the effect will have: lifecycle/id/effect or lifecycle/id/effect/suffix, with each %, / and ~ of the id percent-encoded.',
                errcode = 'invalid_parameter_value';
    end if;
    if substr(effect_key, length(own) + 1) !~ '^[^~]+(~[1-9][0-9]{0,5})?$' then
        raise exception 'perdure.import_row: the key % does not end with a number from 1 to 999999 after its ~', quote_literal(right(effect_key, 60))
            using hint = 'The number counts how often the effect was sent with a new key: leave it out, or correct it. Percent-encode a ~ of the suffix.',
                errcode = 'invalid_parameter_value';
    end if;
end $$;
