-- Records an act of a person on an entity, in its present state. Returns the version of the entry, or null if there is no such
-- entity.
create or replace function perdure.note_any(lifecycle text, entity_id text, made_by text, why text) returns bigint
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    newest bigint;
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(why) > 2100 then
        raise exception 'perdure.note: made_by % or its note can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who, in 1 to 200 characters, and why, in 2000 at most.', errcode = 'invalid_parameter_value';
    end if;
    -- This lock keeps the entity's entries in order. Its version stays unchanged, because an open run may write the next one.
    select * into i from ident x where x.lifecycle = note_any.lifecycle and x.id = entity_id for no key update;
    if not found then
        return null;
    end if;
    newest := take_version(i.lifecycle, i.id);
    insert into transition (lifecycle, id, generation, version, state, attention, why, made_by)
        select i.lifecycle, i.id, i.generation, newest, coalesce(e.state, i.final), e.attention, note_any.why, note_any.made_by
        from (select) one left join entity e on e.lifecycle = i.lifecycle and e.id = i.id;
    return newest;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.note_scoped(lifecycle text, entity_id text, made_by text, why text)
returns bigint language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('note', '{operator,console}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.note_any(lifecycle, entity_id, made_by, why);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.note(lifecycle text, entity_id text, made_by text, why text)
returns bigint language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.note_any(text,text,text,text)', 'execute') then
        return perdure.note_any(lifecycle, entity_id, made_by, why);
    end if;
    return perdure.note_scoped(lifecycle, entity_id, made_by, why);
end $$;
