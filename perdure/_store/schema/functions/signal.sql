-- Sends a message to the handler `name` (@workflow.signal) of an open lifecycle, once for each message id.
create or replace function perdure.signal_any(lifecycle text, entity_id text, name text, payload jsonb default null, message_id text default null,
    not_before timestamptz default null, traceparent text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    if name is null or name !~ '^[^[:cntrl:]]{1,200}$' or name ~ '^(perdure-|__temporal)' then
        raise exception 'perdure.signal: % can not be the name of a signal', coalesce(quote_literal(left(name, 60)), 'null')
            using hint = 'Give the name of a handler: the method with @workflow.signal.', errcode = 'invalid_parameter_value';
    end if;
    return perdure.send('signal', lifecycle, entity_id, name, payload, message_id, not_before, traceparent);
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.signal_scoped(lifecycle text, entity_id text, name text, payload jsonb default null, message_id text default null,
    not_before timestamptz default null, traceparent text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('signal', '{app,callbacks}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.signal_any(lifecycle, entity_id, name, payload, message_id, not_before, traceparent);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.signal(lifecycle text, entity_id text, name text, payload jsonb default null, message_id text default null,
    not_before timestamptz default null, traceparent text default null)
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.signal_any(text,text,text,jsonb,text,timestamp with time zone,text)', 'execute') then
        return perdure.signal_any(lifecycle, entity_id, name, payload, message_id, not_before, traceparent);
    end if;
    return perdure.signal_scoped(lifecycle, entity_id, name, payload, message_id, not_before, traceparent);
end $$;
