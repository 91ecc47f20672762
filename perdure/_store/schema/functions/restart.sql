-- Runs a finished entity again, as a new generation with new keys. Returns the generation.
create or replace function perdure.restart_any(lifecycle text, entity_id text, made_by text, note text,
    input jsonb default null, traceparent text default null)
returns int language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    doubtful text;
    last finished;
begin
    perform check_read_committed('restart');
    if coalesce(restart_any.made_by, '') = '' or length(restart_any.made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.restart: made_by % or its note can not be used', coalesce(quote_literal(left(restart_any.made_by, 60)), 'null')
            using hint = 'Give who requests it, in 1 to 200 characters, and why, in at most 2000.', errcode = 'invalid_parameter_value';
    end if;
    perform check_payload('restart', restart_any.input);
    select * into i from ident x where x.lifecycle = restart_any.lifecycle and x.id = entity_id for no key update;
    if not found then
        raise exception 'perdure.restart: there is no %/%', restart_any.lifecycle, entity_id
            using hint = 'perdure.start starts it for the first time.', errcode = 'no_data_found';
    end if;
    if i.final is null then
        raise exception 'perdure.restart: %/% is still open', restart_any.lifecycle, entity_id
            using hint = 'Only a finished entity can be restarted; retry_now or cancel it.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select key into doubtful from effect x where x.lifecycle = restart_any.lifecycle and x.id = entity_id
        and status in ('attempting', 'in_doubt') limit 1;
    if found then
        raise exception 'perdure.restart: whether % happened is not known', quote_literal(doubtful)
            using hint = 'Resolve that effect first, else it could happen twice.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select * into last from finished x where x.lifecycle = restart_any.lifecycle and x.id = entity_id and x.generation = i.generation
        order by finished_at desc limit 1; -- its month may have been dropped, and that of an earlier generation not
    if not found and restart_any.input is null then -- of one that is found, null was the input
        raise exception 'perdure.restart: the input of %/% is no longer on record', restart_any.lifecycle, entity_id
            using hint = 'Give it again: input => ... in SQL, given= in Python, --input FILE with the command.', errcode = 'no_data_found';
    end if;
    update ident x set generation = i.generation + 1, version = coalesce(i.noted, i.version) + 1, noted = null, final = null
        where x.lifecycle = restart_any.lifecycle and x.id = entity_id returning * into i;
    delete from behind b where b.lifecycle = restart_any.lifecycle and b.id = entity_id; -- the last generation's
    insert into entity (lifecycle, id, generation, state, input, tenant)
        values (restart_any.lifecycle, entity_id, i.generation, 'starting', coalesce(restart_any.input, last.input),
            coalesce(i.tenant, last.tenant));
    insert into transition (lifecycle, id, generation, version, state, why, made_by)
        values (restart_any.lifecycle, entity_id, i.generation, i.version, 'starting', note, restart_any.made_by);
    insert into outbox (lifecycle, id, generation, kind, traceparent)
        values (restart_any.lifecycle, entity_id, i.generation, 'start', checked_traceparent(restart_any.traceparent));
    return i.generation;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.restart_scoped(lifecycle text, entity_id text, made_by text, note text,
    input jsonb default null, traceparent text default null)
returns int language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('restart', '{operator,console}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.restart_any(lifecycle, entity_id, made_by, note, input, traceparent);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.restart(lifecycle text, entity_id text, made_by text, note text,
    input jsonb default null, traceparent text default null)
returns int language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.restart_any(text,text,text,text,jsonb,text)', 'execute') then
        return perdure.restart_any(lifecycle, entity_id, made_by, note, input, traceparent);
    end if;
    return perdure.restart_scoped(lifecycle, entity_id, made_by, note, input, traceparent);
end $$;
