-- Delivers a rejected row again: a start, with a corrected input if one is given, or a message, as the last one of its entity.
-- Returns the kind.
create or replace function perdure.retry_rejected_any(seq bigint, made_by text, note text default '', input jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    held record;
    r rejected;
    i ident;
begin
    select * into held from hold_rejected('retry_rejected', retry_rejected_any.seq, made_by, note);
    r := held.r;
    i := held.i;
    if i.id is null or i.generation <> r.generation or i.final is not null then
        raise exception 'perdure.retry_rejected: %/% has ended, or was restarted, since', r.lifecycle, r.id
            using hint = 'Drop it: perdure.drop_rejected.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if exists (select from entity x where x.lifecycle = r.lifecycle and x.id = r.id and x.left_to is not null) then
        raise exception 'perdure.retry_rejected: %/% is left to the database that this one is a copy of', r.lifecycle, r.id
            using hint = 'Retry it there. It is never sent from here.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if retry_rejected_any.input is not null and r.kind <> 'start' then
        raise exception 'perdure.retry_rejected: % is a %, and has no input', retry_rejected_any.seq, r.kind
            using hint = 'Drop it, and send another.', errcode = 'invalid_parameter_value';
    end if;
    perform check_payload('retry_rejected', retry_rejected_any.input);
    if retry_rejected_any.input is not null then
        update entity x set input = retry_rejected_any.input where x.lifecycle = r.lifecycle and x.id = r.id;
    end if;
    -- A new place in the order: later messages were delivered without it, and the workflow accepts no earlier place any more.
    update message x set ordinal = (
            select max(y.ordinal) + 1 from message y where y.lifecycle = r.lifecycle and y.id = r.id and y.generation = r.generation)
        where x.lifecycle = r.lifecycle and x.id = r.id and x.generation = r.generation and x.message_id = r.message_id
            and x.ordinal is not null;
    insert into outbox (lifecycle, id, generation, kind, body, traceparent, priority, not_before, due_at, message_id)
        values (r.lifecycle, r.id, r.generation, r.kind, r.body, r.traceparent, r.priority,
            greatest(clock_timestamp(), r.due_at), r.due_at, r.message_id);
    perform note_rejected(r, r.generation, (select x.state from entity x where x.lifecycle = r.lifecycle and x.id = r.id),
        retry_rejected_any.made_by, format('rejected %s %s, delivered again: %s', r.kind, r.seq, note));
    return r.kind;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.retry_rejected_scoped(seq bigint, made_by text, note text default '', input jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('retry_rejected', '{operator,console}',
        (select r.lifecycle from perdure.rejected r where r.seq = retry_rejected_scoped.seq),
        (select perdure.tenants(r.lifecycle, r.id) from perdure.rejected r where r.seq = retry_rejected_scoped.seq));
    return perdure.retry_rejected_any(seq, made_by, note, input);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.retry_rejected(seq bigint, made_by text, note text default '', input jsonb default null)
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.retry_rejected_any(bigint,text,text,jsonb)', 'execute') then
        return perdure.retry_rejected_any(seq, made_by, note, input);
    end if;
    return perdure.retry_rejected_scoped(seq, made_by, note, input);
end $$;
