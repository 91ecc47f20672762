-- What roles need that have no rights on tables: where an entity is, which schema this is, what to do with what was
-- rejected. It only adds.

create index rejected_by_entity on perdure.rejected (lifecycle collate "C", id collate "C", seq);

-- Numbers of the migrations that were applied, and the oldest workers that each lets run.
create function perdure.schema_version() returns table (number int, oldest int)
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    return query select m.number, m.oldest from migration m order by m.number;
end $$;

-- Where an entity is, null where there is none of that id. The zone is set so that all times read alike.
create function perdure.status(lifecycle text, entity_id text) returns jsonb
language plpgsql stable security definer set search_path = perdure, pg_temp set timezone = 'UTC' as $$
begin
    return (select jsonb_build_object(
        'lifecycle', i.lifecycle, 'id', i.id, 'round', i.round,
        'state', coalesce(e.state, i.final), 'final', i.final is not null,
        'since', coalesce(e.since, (
            select f.finished_at from finished f where f.lifecycle = i.lifecycle and f.id = i.id and f.round = i.round
            order by f.finished_at desc limit 1)),
        'attention', e.attention, 'tenant', e.tenant,
        'waits_for_delivery', exists (
            select from outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'start'),
        'messages_waiting', (
            select count(*) from outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'message'),
        'rejected', (
            select r.reason from rejected r where r.lifecycle = i.lifecycle and r.id = i.id and r.round = i.round
            order by r.seq desc limit 1),
        'effects', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'key', x.key, 'effect', x.effect, 'status', x.status, 'attempts', x.attempts, 'first_at', x.first_at,
                'deadline', x.deadline, 'receipt', x.receipt, 'why', x.why, 'settled_by', x.settled_by)
                order by x.first_at, x.key), '[]')
            from effect x where x.lifecycle = i.lifecycle and x.id = i.id and x.round = i.round))
        from ident i left join entity e on e.lifecycle = i.lifecycle and e.id = i.id
        where i.lifecycle = status.lifecycle and i.id = entity_id);
end $$;

-- Finds what was rejected, and keeps relays and lifecycles off its entity until the transaction ends.
create function perdure.hold_rejected(verb text, seq bigint, made_by text, note text, out r perdure.rejected, out i perdure.ident)
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.%: made_by % or its note can not be used', verb, coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who asks, in 1 to 200 characters, and why, in 2000 at most.', errcode = 'invalid_parameter_value';
    end if;
    select * into r from rejected x where x.seq = hold_rejected.seq;
    if found then
        perform pg_advisory_xact_lock(hashtextextended(r.lifecycle || '/' || r.id, x'70657264'::bigint)); -- as a relay does
        select * into i from ident x where x.lifecycle = r.lifecycle and x.id = r.id for no key update;
        delete from rejected x where x.seq = hold_rejected.seq;
    end if;
    if not found then
        raise exception 'perdure.%: nothing that was rejected has the number %', verb, coalesce(hold_rejected.seq::text, 'null')
            using hint = 'perdure.rejected holds them; this one may have been dealt with meanwhile.', errcode = 'no_data_found';
    end if;
end $$;

-- Puts on record what a person did, and shows what else of the entity was rejected. The caller holds its row of `ident`.
create function perdure.note_rejected(r perdure.rejected, round int, state text, made_by text, why text) returns void
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    newest bigint;
begin
    update entity x set attention = (
            select case y.kind when 'start' then 'rejected: ' else 'a message was rejected: ' end || y.reason
            from rejected y where y.lifecycle = r.lifecycle and y.id = r.id and y.round = r.round order by y.seq desc limit 1)
        where x.lifecycle = r.lifecycle and x.id = r.id
            and (x.attention like 'rejected: %' or x.attention like 'a message was rejected: %');
    select max(t.version) into newest from transition t where t.lifecycle = r.lifecycle and t.id = r.id;
    insert into transition (lifecycle, id, round, version, state, attention, why, made_by)
        select r.lifecycle, r.id, note_rejected.round, greatest(i.version, newest) + 1, note_rejected.state,
            (select x.attention from entity x where x.lifecycle = r.lifecycle and x.id = r.id), why, note_rejected.made_by
        from ident i where i.lifecycle = r.lifecycle and i.id = r.id;
end $$;

-- Delivers again what was rejected: a start, with its input corrected where one is given, or a message, as the last of
-- its entity's. Returns its kind.
create function perdure.retry_rejected(seq bigint, made_by text, note text default '', input jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    held record;
    r rejected;
    i ident;
begin
    select * into held from hold_rejected('retry_rejected', retry_rejected.seq, made_by, note);
    r := held.r;
    i := held.i;
    if i.id is null or i.round <> r.round or i.final is not null then
        raise exception 'perdure.retry_rejected: %/% has ended, or was restarted, since', r.lifecycle, r.id
            using hint = 'Drop it: perdure.drop_rejected.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if retry_rejected.input is not null and r.kind <> 'start' then
        raise exception 'perdure.retry_rejected: % is a %, and has no input', retry_rejected.seq, r.kind
            using hint = 'Drop it, and send another.', errcode = 'invalid_parameter_value';
    end if;
    perform check_payload('retry_rejected', retry_rejected.input);
    if retry_rejected.input is not null then
        update entity x set input = retry_rejected.input where x.lifecycle = r.lifecycle and x.id = r.id;
    end if;
    -- A new place in the order: those behind it went on without it, and their workflow takes no earlier one any more.
    update message x set ordinal = (
            select max(y.ordinal) + 1 from message y where y.lifecycle = r.lifecycle and y.id = r.id and y.round = r.round)
        where x.lifecycle = r.lifecycle and x.id = r.id and x.round = r.round and x.message_id = r.message_id
            and x.ordinal is not null;
    insert into outbox (lifecycle, id, round, kind, body, traceparent, priority, not_before, wanted_at, message_id)
        values (r.lifecycle, r.id, r.round, r.kind, r.body, r.traceparent, r.priority,
            greatest(clock_timestamp(), r.wanted_at), r.wanted_at, r.message_id);
    perform note_rejected(r, r.round, (select x.state from entity x where x.lifecycle = r.lifecycle and x.id = r.id),
        retry_rejected.made_by, format('rejected %s %s, delivered again: %s', r.kind, r.seq, note));
    return r.kind;
end $$;

-- Gives up what was rejected. A first start: the entity may be started again, as if it had never been. A restart: it is
-- finished again, as it was. With a start, the messages go that waited behind it. Returns the kind.
create function perdure.drop_rejected(seq bigint, made_by text, note text default '')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    held record;
    r rejected;
    i ident;
    was text;
    began effect;
begin
    select * into held from hold_rejected('drop_rejected', drop_rejected.seq, made_by, note);
    r := held.r;
    i := held.i;
    if i.id is null or i.round <> r.round or i.final is not null then
        return r.kind; -- nothing of it is left
    end if;
    select x.state into was from entity x where x.lifecycle = r.lifecycle and x.id = r.id;
    if r.kind <> 'start' then
        -- Its place stays taken: should it have been heard after all, the next one would be taken for it. Its id is free.
        update message x set kind = 'dropped', message_id = 'dropped ' || r.seq, payload = null, delivered_at = clock_timestamp()
            where x.lifecycle = r.lifecycle and x.id = r.id and x.round = r.round and x.message_id = r.message_id;
        perform note_rejected(r, r.round, was, made_by, format('rejected %s %s, dropped: %s', r.kind, r.seq, note));
        return r.kind;
    end if;
    if exists (select from entity x where x.lifecycle = r.lifecycle and x.id = r.id and x.workflow_id is not null) then
        raise exception 'perdure.drop_rejected: %/% runs', r.lifecycle, r.id
            using hint = 'Cancel it.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select * into began from effect x where x.lifecycle = r.lifecycle and x.id = r.id and x.round = r.round limit 1;
    if found then
        raise exception 'perdure.drop_rejected: % is on record as %', quote_literal(began.key), began.status
            using hint = 'Dropped and started again it could happen twice: perdure.retry_rejected.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if r.round > 0 then
        select x.state into was from finished x where x.lifecycle = r.lifecycle and x.id = r.id and x.round = r.round - 1
            order by x.finished_at desc limit 1;
        if not found then
            raise exception 'perdure.drop_rejected: how %/% ended before is no longer on record', r.lifecycle, r.id
                using hint = 'Deliver it again: perdure.retry_rejected.', errcode = 'object_not_in_prerequisite_state';
        end if;
    end if;
    delete from outbox x where x.lifecycle = r.lifecycle and x.id = r.id;
    delete from message x where x.lifecycle = r.lifecycle and x.id = r.id;
    delete from rejected x where x.lifecycle = r.lifecycle and x.id = r.id and x.round = r.round;
    delete from entity x where x.lifecycle = r.lifecycle and x.id = r.id;
    perform note_rejected(r, greatest(r.round - 1, 0), was, made_by, format('rejected start %s, dropped: %s', r.seq, note));
    if r.round > 0 then
        update ident x set round = r.round - 1, final = was,
                version = (select max(t.version) from transition t where t.lifecycle = r.lifecycle and t.id = r.id)
            where x.lifecycle = r.lifecycle and x.id = r.id;
    else
        delete from ident x where x.lifecycle = r.lifecycle and x.id = r.id;
    end if;
    return r.kind;
end $$;

-- Whoever could read this before, by rights on the tables, can go on by the functions.
do $$
declare
    g record;
begin
    for g in
        select a.grantee::regrole as role, 'schema_version' as what from pg_proc p, aclexplode(p.proacl) a
        where p.oid = (select oid from pg_proc where pronamespace = 'perdure'::regnamespace and proname = 'start')
            and a.grantee not in (0, p.proowner)
        union
        select a.grantee::regrole, unnest(array['schema_version', 'status']) from pg_class c, aclexplode(c.relacl) a
        where c.oid = 'perdure.effect'::regclass and a.privilege_type = 'SELECT' and a.grantee not in (0, c.relowner)
    loop
        execute format('grant execute on function perdure.%I to %s', g.what, g.role);
    end loop;
end $$;

revoke all on all functions in schema perdure from public;
