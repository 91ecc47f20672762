-- Starts the lifecycle of an entity: 'started', 'open' (it runs already) or 'finished' (it has ended). Priority 1 goes first.
create or replace function perdure.start_any(lifecycle text, entity_id text, input jsonb, tenant text default null,
    traceparent text default null, not_before timestamptz default null, priority int default 3)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    perform check_entity('start', start_any.lifecycle, entity_id);
    perform check_payload('start', input);
    perform check_time('start', start_any.not_before);
    if coalesce(start_any.priority, 0) not between 1 and 5 then
        raise exception 'perdure.start: % is not a priority', coalesce(start_any.priority::text, 'null')
            using hint = 'Give 1 (first) to 5; 3 where it does not matter.', errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into ident (lifecycle, id, tenant) values (start_any.lifecycle, entity_id, start_any.tenant) on conflict do nothing;
        exit when found;
        i := keep_ident(start_any.lifecycle, entity_id);
        if i.id is not null then -- else a rejected start was dropped meanwhile
            return case when i.final is null then 'open' else 'finished' end;
        end if;
    end loop;
    insert into entity (lifecycle, id, generation, state, input, tenant)
        values (start_any.lifecycle, entity_id, 0, 'starting', start_any.input, start_any.tenant);
    insert into transition (lifecycle, id, generation, version, state) values (start_any.lifecycle, entity_id, 0, 0, 'starting');
    insert into outbox (lifecycle, id, generation, kind, traceparent, not_before, due_at, priority)
        values (start_any.lifecycle, entity_id, 0, 'start', checked_traceparent(start_any.traceparent),
            greatest(clock_timestamp(), start_any.not_before), start_any.not_before, start_any.priority);
    return 'started';
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.start_scoped(lifecycle text, entity_id text, input jsonb, tenant text default null,
    traceparent text default null, not_before timestamptz default null, priority int default 3)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('start', '{app}', lifecycle, array[tenant]);
    return perdure.start_any(lifecycle, entity_id, input, tenant, traceparent, not_before, priority);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.start(lifecycle text, entity_id text, input jsonb, tenant text default null,
    traceparent text default null, not_before timestamptz default null, priority int default 3)
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.start_any(text,text,jsonb,text,text,timestamp with time zone,integer)', 'execute') then
        return perdure.start_any(lifecycle, entity_id, input, tenant, traceparent, not_before, priority);
    end if;
    return perdure.start_scoped(lifecycle, entity_id, input, tenant, traceparent, not_before, priority);
end $$;
