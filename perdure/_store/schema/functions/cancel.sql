-- Requests the end of an open lifecycle. No new attempt begins; effects under way or in doubt are settled first.
create or replace function perdure.cancel_any(lifecycle text, entity_id text, made_by text, note text default '', message_id text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.cancel: made_by % or its note can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Give who requests it, in 1 to 200 characters, and why, in at most 2000.', errcode = 'invalid_parameter_value';
    end if;
    return perdure.send('cancel', lifecycle, entity_id, 'cancel', jsonb_build_object('by', made_by, 'note', coalesce(note, '')),
        message_id, null, null);
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.cancel_scoped(lifecycle text, entity_id text, made_by text, note text default '', message_id text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('cancel', '{app,operator,console}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.cancel_any(lifecycle, entity_id, made_by, note, message_id);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.cancel(lifecycle text, entity_id text, made_by text, note text default '', message_id text default null)
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.cancel_any(text,text,text,text,text)', 'execute') then
        return perdure.cancel_any(lifecycle, entity_id, made_by, note, message_id);
    end if;
    return perdure.cancel_scoped(lifecycle, entity_id, made_by, note, message_id);
end $$;
