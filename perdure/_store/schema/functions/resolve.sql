-- Records the outcome of an effect that was in doubt when its entity ended (expired, cancelled). Returns the effect's status.
create or replace function perdure.resolve_any(lifecycle text, entity_id text, effect text, outcome text, made_by text, note text, receipt jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    e effect;
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.resolve: made_by % or its note can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who settles it, in 1 to 200 characters, and why, in 2000 at most.', errcode = 'invalid_parameter_value';
    end if;
    perform check_payload('resolve', resolve_any.receipt);
    select * into i from ident x where x.lifecycle = resolve_any.lifecycle and x.id = entity_id for no key update;
    select * into e from effect x where x.lifecycle = resolve_any.lifecycle and x.id = entity_id
        and (x.effect = resolve_any.effect or x.key = resolve_any.effect or resolve_any.effect is null)
        and x.status in ('attempting', 'in_doubt') order by x.first_at limit 1;
    if e.key is null then
        raise exception 'perdure.resolve: nothing of %/% is in doubt', resolve_any.lifecycle, entity_id
            using hint = 'Its effects stand in perdure.effect.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if i.final is null then
        raise exception 'perdure.resolve: %/% is still open', resolve_any.lifecycle, entity_id
            using hint = 'Send its workflow the update resolve.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if outcome not in ('done', 'not_done', 'abandoned') or outcome is null then
        raise exception 'perdure.resolve: % is no outcome', coalesce(quote_literal(outcome), 'null')
            using hint = 'Say done, not_done or abandoned.', errcode = 'invalid_parameter_value';
    end if;
    if outcome = 'not_done' and clock_timestamp() < e.deadline then
        raise exception 'perdure.resolve: an attempt of % may be under way until %', e.key,
            to_char(date_trunc('second', e.deadline at time zone 'UTC') + interval '1 s', 'YYYY-MM-DD HH24:MI:SS "UTC"')
            using hint = 'Say not_done after that time.', errcode = 'object_not_in_prerequisite_state';
    end if;
    update effect x set status = outcome, receipt = coalesce(resolve_any.receipt, x.receipt), why = note, settled_by = made_by
        where x.key = e.key returning * into e;
    perform note_effect(i, e);
    return outcome;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.resolve_scoped(lifecycle text, entity_id text, effect text, outcome text, made_by text, note text, receipt jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('resolve', '{operator,console}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.resolve_any(lifecycle, entity_id, effect, outcome, made_by, note, receipt);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.resolve(lifecycle text, entity_id text, effect text, outcome text, made_by text, note text, receipt jsonb default null)
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.resolve_any(text,text,text,text,text,text,jsonb)', 'execute') then
        return perdure.resolve_any(lifecycle, entity_id, effect, outcome, made_by, note, receipt);
    end if;
    return perdure.resolve_scoped(lifecycle, entity_id, effect, outcome, made_by, note, receipt);
end $$;
