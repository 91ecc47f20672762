-- Messages to running lifecycles, in the app's own transaction; starts with a time and a priority. It only adds: workers
-- of earlier releases run on it, and leave the messages to others.

-- Deliveries go by entity, each entity's in order; so that is the key.
alter table perdure.outbox
    drop constraint outbox_pkey,
    add primary key (lifecycle, id, seq),
    drop constraint outbox_kind_check,
    add constraint outbox_kind_check check (kind in ('start', 'wake', 'message')),
    add column priority smallint not null default 3 check (priority between 1 and 5),
    add column wanted_at timestamptz, -- not before then, says the app; `not_before` says when to look at it next
    add column message_id text collate "C";

drop index perdure.outbox_due;
create index outbox_due on perdure.outbox (priority, not_before, seq);

alter table perdure.rejected
    add column traceparent text,
    add column priority smallint not null default 3,
    add column wanted_at timestamptz,
    add column message_id text,
    add column created_at timestamptz;

-- What was said to an open lifecycle, until its end. No foreign key: an open transaction of the app would block that end.
create table perdure.message (
    lifecycle    text        not null collate "C",
    id           text        not null collate "C",
    round        int         not null,
    message_id   text        not null collate "C",
    kind         text        not null check (kind in ('signal', 'cancel', 'dropped')),
    name         text        not null,
    payload      jsonb,
    traceparent  text,
    ordinal      int,        -- the place in which it is delivered, on record before that
    created_at   timestamptz not null default clock_timestamp(),
    delivered_at timestamptz,
    primary key (lifecycle, id, round, message_id)
);

create unique index message_in_order on perdure.message (lifecycle, id, round, ordinal) where ordinal is not null;

-- Ordinal of the last message that the snapshot holds.
alter table perdure.entity add column heard int not null default 0;

-- What stands in the way of a name, an id, a time or a payload: a sentence for the app's developer.
create function perdure.check_entity(verb text, lifecycle text, entity_id text) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    if coalesce(check_entity.lifecycle, '') !~ '^[a-z][a-z0-9_-]{0,62}$' then
        raise exception 'perdure.%: % is not the name of a lifecycle', verb, coalesce(quote_literal(check_entity.lifecycle), 'null')
            using hint = 'Give the name in its @workflow.defn(name=...): a-z, 0-9, _ and -.', errcode = 'invalid_parameter_value';
    end if;
    if entity_id is null or octet_length(entity_id) not between 1 and 900 or entity_id ~ '[[:cntrl:]]' or entity_id <> btrim(entity_id) then
        raise exception 'perdure.%: % can not be an entity id', verb, coalesce(quote_literal(left(entity_id, 60)), 'null')
            using hint = 'Give the key of your row: printable, 1 to 900 bytes.', errcode = 'invalid_parameter_value';
    end if;
end $$;

create function perdure.check_payload(verb text, payload jsonb) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    if pg_column_size(payload) > 2000000 then
        raise exception 'perdure.%: % bytes are too many', verb, pg_column_size(payload)
            using hint = 'Temporal takes 2 MB: keep the rest in a table of yours, and give its key.', errcode = 'program_limit_exceeded';
    end if;
end $$;

create function perdure.check_time(verb text, not_before timestamptz) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    if not isfinite(not_before) then
        raise exception 'perdure.%: not_before can not be %', verb, not_before
            using hint = 'Give a time, or leave it out.', errcode = 'invalid_parameter_value';
    end if;
end $$;

-- A new parameter makes a new function. The old one stays until whoever may execute it may execute the new one.
alter function perdure.start(text, text, jsonb, text, text) rename to start_before;

-- Starts the lifecycle of an entity: 'started', 'open' (it runs already) or 'finished' (it has ended). Priority 1 goes first.
create function perdure.start(lifecycle text, entity_id text, input jsonb, state text default 'pending', tenant text default null,
    traceparent text default null, not_before timestamptz default null, priority int default 3)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    over text;
begin
    perform check_entity('start', start.lifecycle, entity_id);
    perform check_payload('start', input);
    perform check_time('start', start.not_before);
    if coalesce(start.priority, 0) not between 1 and 5 then
        raise exception 'perdure.start: % is not a priority', coalesce(start.priority::text, 'null')
            using hint = 'Give 1 (first) to 5; 3 where it does not matter.', errcode = 'invalid_parameter_value';
    end if;
    if start.state is null then
        raise exception 'perdure.start: the state is null'
            using hint = 'Give the first of the lifecycle''s states, or leave it out for ''pending''.', errcode = 'invalid_parameter_value';
    end if;
    insert into ident (lifecycle, id) values (start.lifecycle, entity_id) on conflict do nothing;
    if not found then
        select final into over from ident i where i.lifecycle = start.lifecycle and i.id = entity_id;
        return case when over is null then 'open' else 'finished' end;
    end if;
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (start.lifecycle, entity_id, 0, start.state, start.input, start.tenant);
    insert into transition (lifecycle, id, round, version, state) values (start.lifecycle, entity_id, 0, 0, start.state);
    insert into outbox (lifecycle, id, round, kind, traceparent, not_before, wanted_at, priority)
        values (start.lifecycle, entity_id, 0, 'start', checked_traceparent(start.traceparent),
            greatest(clock_timestamp(), start.not_before), start.not_before, start.priority);
    return 'started';
end $$;

-- Puts a message to an entity on its way: 'sent', 'known' (one with that id was given before) or 'finished'.
create function perdure.send(verb text, lifecycle text, entity_id text, name text, payload jsonb, message_id text,
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
    select * into i from ident x where x.lifecycle = send.lifecycle and x.id = entity_id;
    if not found then
        raise exception 'perdure.%: there is no %/%', verb, send.lifecycle, entity_id
            using hint = 'perdure.start comes first, in this transaction or before.', errcode = 'no_data_found';
    end if;
    if i.final is not null then
        return 'finished';
    end if;
    insert into message (lifecycle, id, round, message_id, kind, name, payload, traceparent)
        values (send.lifecycle, entity_id, i.round, given, verb, send.name, send.payload, checked_traceparent(send.traceparent))
        on conflict do nothing;
    if not found then
        return 'known';
    end if;
    insert into outbox (lifecycle, id, round, kind, message_id, not_before, wanted_at)
        values (send.lifecycle, entity_id, i.round, 'message', given,
            greatest(clock_timestamp(), send.not_before), send.not_before);
    return 'sent';
end $$;

-- Gives a message to the handler `name` (@workflow.signal) of an open lifecycle, once for each message id.
create function perdure.signal(lifecycle text, entity_id text, name text, payload jsonb default null, message_id text default null,
    not_before timestamptz default null, traceparent text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    if name is null or name !~ '^[^[:cntrl:]]{1,200}$' or name ~ '^(perdure-|__temporal)' then
        raise exception 'perdure.signal: % can not be the name of a signal', coalesce(quote_literal(left(name, 60)), 'null')
            using hint = 'Give the name of a handler: the method with @workflow.signal.', errcode = 'invalid_parameter_value';
    end if;
    return perdure.send('signal', lifecycle, entity_id, name, payload, message_id, not_before, traceparent);
end $$;

-- Asks for the end of an open lifecycle: no new attempt is begun; what is under way or in doubt is settled first.
create function perdure.cancel(lifecycle text, entity_id text, made_by text, note text default '', message_id text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.cancel: made_by % or its note can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who asks, in 1 to 200 characters, and why, in 2000 at most.', errcode = 'invalid_parameter_value';
    end if;
    return perdure.send('cancel', lifecycle, entity_id, 'cancel', jsonb_build_object('by', made_by, 'note', coalesce(note, '')),
        message_id, null, null);
end $$;

-- Applies the mirror part. The caller holds the row of `ident`.
create or replace function perdure.apply_move(w jsonb) returns text
language plpgsql as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    m jsonb := w->'move';
    c jsonb := nullif(w->'column', 'null');
    is_final boolean := coalesce((m->>'final')::boolean, false);
    now_at timestamptz := clock_timestamp();
    old perdure.entity;
    shown text;
begin
    update perdure.ident set version = (w->>'version')::bigint, final = case when is_final then m->>'state' end
        where lifecycle = l and id = e;
    insert into perdure.transition (lifecycle, id, round, version, state, attention, why, made_by, at)
        values (l, e, (w->>'round')::int, (w->>'version')::bigint, m->>'state', m->>'attention', m->>'why', m->>'by', now_at);
    if is_final then
        delete from perdure.entity where lifecycle = l and id = e returning * into old;
        insert into perdure.finished (lifecycle, id, round, state, why, input, snapshot, tenant, workflow_id, created_at, finished_at)
            values (l, e, (w->>'round')::int, m->>'state', m->>'why', coalesce(old.input, nullif(w->'input', 'null')),
                coalesce(nullif(m->'snapshot', 'null'), old.snapshot), old.tenant, w->>'workflow_id',
                coalesce(old.created_at, now_at), now_at);
        delete from perdure.message where lifecycle = l and id = e;
    else
        insert into perdure.entity as x (lifecycle, id, round, state, since, stuck_at, attention, input, snapshot, heard, workflow_id)
            values (l, e, (w->>'round')::int, m->>'state', now_at, now_at + make_interval(secs => (m->>'within')::float),
                m->>'attention', nullif(w->'input', 'null'), nullif(m->'snapshot', 'null'),
                coalesce((m->>'heard')::int, 0), w->>'workflow_id')
            on conflict (lifecycle, id) do update set
                state = excluded.state,
                since = case when x.state = excluded.state then x.since else excluded.since end,
                stuck_at = case when x.state = excluded.state then x.stuck_at else excluded.stuck_at end,
                attention = excluded.attention,
                snapshot = coalesce(excluded.snapshot, x.snapshot),
                input = coalesce(x.input, excluded.input),
                heard = greatest(x.heard, excluded.heard),
                workflow_id = excluded.workflow_id;
    end if;
    if c is null then
        return null;
    end if;
    if w->>'column_error' is null then
        shown := perdure.show_in_app(c->>'table', c->>'key', c->>'column', e, m->>'state');
    else
        shown := 'behind';
    end if;
    if shown = 'behind' then
        insert into perdure.behind as b (lifecycle, id, app_table, app_column, app_key, error)
            values (l, e, c->>'table', c->>'column', c->>'key', w->>'column_error')
            on conflict (lifecycle, id) do update set error = excluded.error, next_try = clock_timestamp();
    end if;
    return shown;
end $$;

do $$
declare
    g record;
begin
    for g in select a.grantee::regrole as role, a.is_grantable from pg_proc p, aclexplode(p.proacl) a
        where p.pronamespace = 'perdure'::regnamespace and p.proname = 'start_before' and a.grantee not in (0, p.proowner)
    loop
        execute format('grant execute on function perdure.start to %s%s', g.role,
            case when g.is_grantable then ' with grant option' else '' end);
    end loop;
end $$;

drop function perdure.start_before;
revoke all on all functions in schema perdure from public;
