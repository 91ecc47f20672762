-- Starts the lifecycle of a row of work from before Perdure, as perdure.start does. Give `effect_key` if an older job may have begun
-- the effect: the effect then counts as in doubt, and may be in flight for another `timeout`. So the first attempt finds that record,
-- and the effect's doubt policy decides. `since` null = the begin is so long ago that it is not known.
create or replace function perdure.import_row_any(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    now_at timestamptz;
    own text;
    answer text;
begin
    if (import_row_any.effect is null) <> (import_row_any.effect_key is null) or import_row_any.timeout is null or octet_length(effect_key) > 2600
        or import_row_any.timeout not between interval '0' and interval '36500 days'
    then
        raise exception 'perdure.import_row: effect %, effect_key %, timeout % can not be used', import_row_any.effect, left(effect_key, 60), import_row_any.timeout
            using hint = 'Give an effect with its key (2600 bytes at most) and its time-out (36500 days at most), or neither.',
                errcode = 'invalid_parameter_value';
    end if;
    own := format('%s/%s/', import_row_any.lifecycle, replace(replace(replace(entity_id, '%', '%25'), '/', '%2F'), '~', '%7E'));
    if effect_key is not null and (not starts_with(effect_key, own) or effect_key = own) then
        raise exception 'perdure.import_row: % is no key of an effect of %/%', quote_literal(left(effect_key, 60)), import_row_any.lifecycle, entity_id
            using hint = 'Give the key that the effect will have: lifecycle/id/effect or lifecycle/id/effect/suffix, with each %, / and ~ of the id percent-encoded.',
                errcode = 'invalid_parameter_value';
    end if;
    if effect_key is not null and substr(effect_key, length(own) + 1) !~ '^[^~]+(~[1-9][0-9]{0,5})?$' then
        raise exception 'perdure.import_row: the key % does not end with a number from 1 to 999999 after its ~', quote_literal(right(effect_key, 60))
            using hint = 'The number counts how often the effect was sent with a new key: leave it out, or correct it. Percent-encode a ~ of the suffix.',
                errcode = 'invalid_parameter_value';
    end if;
    perform check_instant('import_row', 'since', import_row_any.since);
    answer := perdure.start(import_row_any.lifecycle, entity_id, import_row_any.input, priority => import_row_any.priority);
    now_at := clock_timestamp();
    if answer = 'started' and effect_key is not null then
        insert into effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (effect_key, import_row_any.lifecycle, entity_id, 0, import_row_any.effect, gen_random_uuid()::text, 'in_doubt', '',
                case when import_row_any.since is null then 'epoch' else least(import_row_any.since, now_at) end, least(import_row_any.since, now_at), now_at + import_row_any.timeout,
                'imported while processing')
            on conflict do nothing;
        if not found then
            raise exception 'perdure.import_row: there is a record of % already', quote_literal(left(effect_key, 60))
                using hint = 'Give the key that the effect of this entity will have.', errcode = 'unique_violation';
        end if;
    end if;
    return answer;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.import_row_scoped(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('import_row', '{operator}', lifecycle, null);
    return perdure.import_row_any(lifecycle, entity_id, input, priority, effect, effect_key, since, timeout);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.import_row(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0')
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.import_row_any(text,text,jsonb,integer,text,text,timestamp with time zone,interval)', 'execute') then
        return perdure.import_row_any(lifecycle, entity_id, input, priority, effect, effect_key, since, timeout);
    end if;
    return perdure.import_row_scoped(lifecycle, entity_id, input, priority, effect, effect_key, since, timeout);
end $$;
