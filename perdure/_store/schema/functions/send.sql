-- Puts a message for an entity into the outbox: 'sent', 'known' (a message with that id was sent before) or 'finished'.
create or replace function perdure.send(verb text, lifecycle text, entity_id text, name text, payload jsonb, message_id text,
    not_before timestamptz, traceparent text)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    given text := coalesce(send.message_id, gen_random_uuid()::text);
begin
    perform check_entity(verb, send.lifecycle, entity_id);
    perform check_payload(verb, send.payload);
    perform check_time(verb, send.not_before);
    if octet_length(given) not between 1 and 200 then
        raise exception 'perdure.%: % can not be a message id', verb, quote_literal(left(given, 60))
            using hint = 'Give 1 to 200 bytes, or none: then one is made.', errcode = 'invalid_parameter_value';
    end if;
    if given like 'perdure-%' and (verb, given) <> ('cancel', 'perdure-cancel') then -- as `perdure cancel` sends it
        raise exception 'perdure.%: % can not be a message id', verb, quote_literal(left(given, 60))
            using hint = 'Ids that begin with perdure- are reserved: give another one.', errcode = 'invalid_parameter_value';
    end if;
    i := keep_ident(send.lifecycle, entity_id);
    if i.id is null then
        raise exception 'perdure.%: there is no %/%', verb, send.lifecycle, entity_id
            using hint = 'perdure.start comes first, in this transaction or before.', errcode = 'no_data_found';
    end if;
    if i.final is not null then
        return 'finished';
    end if;
    if verb = 'cancel' and exists (
            select from entity x where x.lifecycle = send.lifecycle and x.id = entity_id and x.left_to is not null) then
        raise exception 'perdure.cancel: %/% is left to the database that this one is a copy of', send.lifecycle, entity_id
            using hint = 'Cancel it there. Nothing is sent to it from here.', errcode = 'object_not_in_prerequisite_state';
    end if;
    insert into message (lifecycle, id, generation, message_id, kind, name, payload, traceparent)
        values (send.lifecycle, entity_id, i.generation, given, verb, send.name, send.payload, checked_traceparent(send.traceparent))
        on conflict do nothing;
    if not found then
        return 'known';
    end if;
    insert into outbox (lifecycle, id, generation, kind, message_id, not_before, due_at)
        values (send.lifecycle, entity_id, i.generation, 'message', given,
            greatest(clock_timestamp(), send.not_before), send.not_before);
    return 'sent';
end $$;
