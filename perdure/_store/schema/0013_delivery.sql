-- What comes in is bounded, what waits always has its entity, and no row of the outbox stands in another's way. The first state
-- belongs to the lifecycle: until an entity is delivered it is 'starting', whoever starts it. A worker of an earlier release
-- takes that for a state that its lifecycle does not declare.
-- oldest worker: 13

-- Relays that run, and what the app of each declares: a relay delivers what it knows and leaves the rest to others.
create table perdure.relay (
    id         text        primary key collate "C",
    lifecycles text[]      not null,
    signals    text[]      not null, -- lifecycle.signal
    began_at   timestamptz not null default clock_timestamp(),
    seen_at    timestamptz not null default clock_timestamp()
);

-- Relays whose code can't deliver it, or what stands before it.
alter table perdure.outbox add column declined text[] not null default '{}';

drop index perdure.outbox_due;
create index outbox_due on perdure.outbox (lifecycle, priority, not_before, seq);
create index outbox_declined on perdure.outbox (lifecycle) where declined <> '{}';

-- Whether every relay that was seen within the last minute and knows the lifecycle has declined: then no code can read it.
create function perdure.all_declined(lifecycle text, declined text[]) returns boolean
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    return not exists (
        select from relay r
        where r.seen_at > clock_timestamp() - interval '1 minute' and all_declined.lifecycle = any(r.lifecycles)
            and r.id <> all(all_declined.declined));
end $$;

-- Puts on record that a relay runs.
create function perdure.relay_seen(relay_id text, lifecycles text[], signals text[]) returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    insert into relay as r (id, lifecycles, signals) values (relay_id, relay_seen.lifecycles, relay_seen.signals)
        on conflict (id) do update set seen_at = clock_timestamp();
    delete from relay r where r.seen_at < clock_timestamp() - interval '2 hours';
end $$;

-- Opens to all relays again what all that run have declined, 1000 rows at most: a relay that had not may be gone, or what stood
-- before them.
create function perdure.reopen_declined() returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    update outbox o set declined = '{}'
        from (
            select y.lifecycle, y.id, y.seq from outbox y
            where y.declined <> '{}' and all_declined(y.lifecycle, y.declined)
            limit 1000 for update skip locked) x
        where o.lifecycle = x.lifecycle and o.id = x.id and o.seq = x.seq;
end $$;

-- Names that rows of the outbox are due for and that no relay knows which was seen within `lately`: lifecycles, and signals of
-- lifecycles.
create function perdure.unknown_names(lately interval default '1 minute')
returns table (lifecycle text, signal text, waiting bigint, since timestamptz)
language plpgsql stable set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    return query select x.lifecycle, x.name, x.waiting, x.since
        from (
            select o.lifecycle, m.name, count(*) as waiting, min(greatest(o.created_at, o.wanted_at)) as since
            from outbox o left join message m on m.lifecycle = o.lifecycle and m.id = o.id and m.round = o.round
                and m.message_id = o.message_id and m.kind = 'signal'
            where o.wanted_at is null or o.wanted_at <= clock_timestamp()
            group by o.lifecycle, m.name) x
        where not exists (
            select from relay r
            where r.seen_at > clock_timestamp() - lately and x.lifecycle = any(r.lifecycles)
                and (x.name is null or x.lifecycle || '.' || x.name = any(r.signals)));
end $$;

create function perdure.name_unknown(lifecycle text, signal text) returns text
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    return case when signal is null then format('a lifecycle named %L', name_unknown.lifecycle)
        else format('a handler of %s for the signal %L', name_unknown.lifecycle, signal) end;
end $$;

-- Says in the rows that wait for such a name why they do: 1000 at most.
create function perdure.say_unknown() returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    update outbox o set error = x.why
        from (
            select y.lifecycle, y.id, y.seq, format('no worker that runs knows %s', name_unknown(u.lifecycle, u.signal)) as why
            from unknown_names() u
            join outbox y on y.lifecycle = u.lifecycle
            left join message m on m.lifecycle = y.lifecycle and m.id = y.id and m.round = y.round
                and m.message_id = y.message_id and m.kind = 'signal'
            where m.name is not distinct from u.signal and (y.wanted_at is null or y.wanted_at <= clock_timestamp())
                and y.error is null
            limit 1000 for update of y skip locked) x
        where o.lifecycle = x.lifecycle and o.id = x.id and o.seq = x.seq;
end $$;

-- Puts aside what has waited for `patience` for a name that no relay has known for as long, or only what waits for one entity.
-- Returns how many rows that were, 100 at most.
create function perdure.reject_unknown(patience interval, lifecycle text default null, entity_id text default null) returns int
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    w record;
    why text;
    put_aside int := 0;
begin
    for w in
        select o.lifecycle, o.id, o.seq, o.kind, u.signal
        from unknown_names(greatest(patience, interval '1 minute')) u
        join outbox o on o.lifecycle = u.lifecycle
        left join message m on m.lifecycle = o.lifecycle and m.id = o.id and m.round = o.round
            and m.message_id = o.message_id and m.kind = 'signal'
        where m.name is not distinct from u.signal and greatest(o.created_at, o.wanted_at) <= clock_timestamp() - patience
            and (reject_unknown.lifecycle is null or (o.lifecycle = reject_unknown.lifecycle and o.id = entity_id))
        order by o.seq
        limit 100
    loop
        if pg_try_advisory_xact_lock(hashtextextended(w.lifecycle || '/' || w.id, x'70657264'::bigint)) then -- as a relay does
            why := format('no worker knows %s', name_unknown(w.lifecycle, w.signal));
            with gone as (
                delete from outbox o where o.lifecycle = w.lifecycle and o.id = w.id and o.seq = w.seq returning *)
            insert into rejected (seq, lifecycle, id, round, kind, body, reason, traceparent, priority, wanted_at, message_id, created_at)
            select g.seq, g.lifecycle, g.id, g.round, g.kind, g.body, why, g.traceparent, g.priority, g.wanted_at, g.message_id,
                g.created_at
            from gone g;
            if found then
                put_aside := put_aside + 1;
                update entity x set attention = case w.kind when 'start' then 'rejected: ' else 'a message was rejected: ' end || why
                    where x.lifecycle = w.lifecycle and x.id = w.id;
                update outbox o set declined = '{}' where o.lifecycle = w.lifecycle and o.id = w.id and o.declined <> '{}';
            end if;
        end if;
    end loop;
    return put_aside;
end $$;

-- The file in which this table was when the mark was exchanged. One that was restored over it has another.
alter table perdure.database add column filenode oid;

-- Before anything is sent: is this the database that was asked for last? Null = yes, else why not. A server of the same
-- start has the same timeline and system identifier, so these are not asked for each time. While a dump is being restored over
-- it there is no row, or one of before.
create or replace function perdure.database_trouble() returns text
language plpgsql stable as $$
declare
    d perdure.database;
    i record;
begin
    select * into d from perdure.database;
    if not found then
        return 'not verified';
    elsif d.stopped is not null then
        return d.stopped;
    end if;
    if d.mark is null or (d.postmaster_started = pg_postmaster_start_time()
            and d.filenode is not distinct from pg_relation_filenode('perdure.database')
            and d.database_oid = (select oid from pg_database where datname = current_database())) then
        return null;
    end if;
    i := perdure.incarnation();
    if i.system_identifier is distinct from d.system_identifier or i.database_oid is distinct from d.database_oid then
        return format('this database (system %s, oid %s) is a copy of the one that works with scope %L in namespace %L (system %s, oid %s)',
            i.system_identifier, i.database_oid, d.scope, d.namespace, d.system_identifier, d.database_oid);
    end if;
    return 'not verified';
end $$;

-- Percent-encoded, an id is part of the keys of its effects, and an index takes no key of more than 2,700 bytes.
create or replace function perdure.check_entity(verb text, lifecycle text, entity_id text) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    if coalesce(check_entity.lifecycle, '') !~ '^[a-z][a-z0-9_-]{0,62}$' then
        raise exception 'perdure.%: % is not the name of a lifecycle', verb, coalesce(quote_literal(check_entity.lifecycle), 'null')
            using hint = 'Give the name in its @workflow.defn(name=...): a-z, 0-9, _ and -.', errcode = 'invalid_parameter_value';
    end if;
    if entity_id is null or octet_length(entity_id) not between 1 and 900 or entity_id ~ '[[:cntrl:]]' or entity_id <> btrim(entity_id)
        or octet_length(entity_id) + 2 * length(regexp_replace(entity_id, '[^%/~]', '', 'g')) > 1500
    then
        raise exception 'perdure.%: % can not be an entity id', verb, coalesce(quote_literal(left(entity_id, 60)), 'null')
            using hint = 'Give the key of your row: printable, 1 to 900 bytes; 1500 where each %, / and ~ counts as three.',
                errcode = 'invalid_parameter_value';
    end if;
end $$;

-- A time that every reader can hold: from year 1 to 9999, in UTC.
create function perdure.check_instant(verb text, parameter text, given timestamptz) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    if given < timestamptz '0001-01-01 00:00:00+00' or given >= timestamptz '10000-01-01 00:00:00+00' then
        raise exception 'perdure.%: % can not be %', verb, parameter, given
            using hint = 'Give a time from year 1 to 9999 (UTC), or leave it out.', errcode = 'invalid_parameter_value';
    end if;
end $$;

create or replace function perdure.check_time(verb text, not_before timestamptz) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    perform check_instant(verb, 'not_before', not_before);
end $$;

-- Reads an entity's row, and keeps it from being deleted until the transaction ends. It waits for nobody but who deletes the
-- row, and no run waits for it. A transaction whose snapshot is older than the row's last change gets a serialization failure,
-- as the snapshot shows a round or a state that is over; that lock is given back at once.
create function perdure.keep_ident(lifecycle text, entity_id text) returns perdure.ident
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        begin
            perform from ident x where x.lifecycle = keep_ident.lifecycle and x.id = entity_id for share;
            raise exception using errcode = 'PE001';
        exception when sqlstate 'PE001' then
            null;
        end;
    end if;
    select * into i from ident x where x.lifecycle = keep_ident.lifecycle and x.id = entity_id for key share;
    return i;
end $$;

-- A parameter less makes a new function. The old ones stay until whoever may execute them may execute the new ones.
alter function perdure.start(text, text, jsonb, text, text, text, timestamptz, int) rename to start_before;
alter function perdure.restart(text, text, text, text, text, jsonb, text) rename to restart_before;
alter function perdure.adopt(text, text, jsonb, text, int, text, text, timestamptz, interval) rename to adopt_before;

-- Starts the lifecycle of an entity: 'started', 'open' (it runs already) or 'finished' (it has ended). Priority 1 goes first.
create function perdure.start(lifecycle text, entity_id text, input jsonb, tenant text default null,
    traceparent text default null, not_before timestamptz default null, priority int default 3)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    perform check_entity('start', start.lifecycle, entity_id);
    perform check_payload('start', input);
    perform check_time('start', start.not_before);
    if coalesce(start.priority, 0) not between 1 and 5 then
        raise exception 'perdure.start: % is not a priority', coalesce(start.priority::text, 'null')
            using hint = 'Give 1 (first) to 5; 3 where it does not matter.', errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into ident (lifecycle, id) values (start.lifecycle, entity_id) on conflict do nothing;
        exit when found;
        i := keep_ident(start.lifecycle, entity_id);
        if i.id is not null then -- else a rejected start of it was dropped meanwhile
            return case when i.final is null then 'open' else 'finished' end;
        end if;
    end loop;
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (start.lifecycle, entity_id, 0, 'starting', start.input, start.tenant);
    insert into transition (lifecycle, id, round, version, state) values (start.lifecycle, entity_id, 0, 0, 'starting');
    insert into outbox (lifecycle, id, round, kind, traceparent, not_before, wanted_at, priority)
        values (start.lifecycle, entity_id, 0, 'start', checked_traceparent(start.traceparent),
            greatest(clock_timestamp(), start.not_before), start.not_before, start.priority);
    return 'started';
end $$;

-- Puts a message to an entity on its way: 'sent', 'known' (one with that id was given before) or 'finished'.
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
    i := keep_ident(send.lifecycle, entity_id);
    if i.id is null then
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

-- Starts the lifecycle of a row of work that was there before perdure: as perdure.start does. `effect_key` is given where an
-- older job may have begun the effect: then it counts as in doubt, and may be in flight for `timeout` more. So the first
-- attempt meets what stands, and the effect's doubt policy has the word. `since` null = begun so long ago that nobody remembers it.
create function perdure.adopt(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    now_at timestamptz;
    answer text;
begin
    if (adopt.effect is null) <> (adopt.effect_key is null) or adopt.timeout is null or octet_length(effect_key) > 2600
        or adopt.timeout not between interval '0' and interval '1 year'
    then
        raise exception 'perdure.adopt: effect %, effect_key %, timeout % can not be used', adopt.effect, left(effect_key, 60), adopt.timeout
            using hint = 'Give an effect with its key (2600 bytes at most) and its time-out (a year at most), or neither.',
                errcode = 'invalid_parameter_value';
    end if;
    perform check_instant('adopt', 'since', adopt.since);
    answer := perdure.start(adopt.lifecycle, entity_id, adopt.input, priority => adopt.priority);
    now_at := clock_timestamp();
    if answer = 'started' and effect_key is not null then
        insert into effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (effect_key, adopt.lifecycle, entity_id, 0, adopt.effect, gen_random_uuid()::text, 'in_doubt', '',
                case when adopt.since is null then 'epoch' else least(adopt.since, now_at) end, least(adopt.since, now_at), now_at + adopt.timeout,
                'adopted while processing')
            on conflict do nothing;
    end if;
    return answer;
end $$;

-- Runs a finished entity again, as a new round with new keys. Returns the round.
create function perdure.restart(lifecycle text, entity_id text, made_by text, note text,
    input jsonb default null, traceparent text default null)
returns int language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    doubtful text;
    last finished;
begin
    select * into i from ident x where x.lifecycle = restart.lifecycle and x.id = entity_id for no key update;
    if not found then
        raise exception 'perdure.restart: there is no %/%', restart.lifecycle, entity_id
            using hint = 'perdure.start starts it for the first time.', errcode = 'no_data_found';
    end if;
    if i.final is null then
        raise exception 'perdure.restart: %/% is still open', restart.lifecycle, entity_id
            using hint = 'Only a finished entity can be restarted; retry_now or cancel it.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select key into doubtful from effect x where x.lifecycle = restart.lifecycle and x.id = entity_id
        and status in ('attempting', 'in_doubt') limit 1;
    if found then
        raise exception 'perdure.restart: whether % happened is not known', quote_literal(doubtful)
            using hint = 'Resolve that effect first, else it could happen twice.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select * into last from finished x where x.lifecycle = restart.lifecycle and x.id = entity_id order by finished_at desc limit 1;
    if last.input is null and restart.input is null then
        raise exception 'perdure.restart: the input of %/% is no longer on record', restart.lifecycle, entity_id
            using hint = 'Give it again: input => ...', errcode = 'no_data_found';
    end if;
    update ident x set round = i.round + 1, version = i.version + 1, final = null
        where x.lifecycle = restart.lifecycle and x.id = entity_id;
    delete from behind b where b.lifecycle = restart.lifecycle and b.id = entity_id; -- the last round's
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (restart.lifecycle, entity_id, i.round + 1, 'starting', coalesce(restart.input, last.input), last.tenant);
    insert into transition (lifecycle, id, round, version, state, why, made_by)
        values (restart.lifecycle, entity_id, i.round + 1, i.version + 1, 'starting', note, restart.made_by);
    insert into outbox (lifecycle, id, round, kind, traceparent)
        values (restart.lifecycle, entity_id, i.round + 1, 'start', checked_traceparent(restart.traceparent));
    return i.round + 1;
end $$;

do $$
declare
    g record;
begin
    for g in select split_part(p.proname, '_', 1) as name, a.grantee::regrole as role, a.is_grantable
        from pg_proc p, aclexplode(p.proacl) a
        where p.pronamespace = 'perdure'::regnamespace and p.proname in ('start_before', 'restart_before', 'adopt_before')
            and a.grantee not in (0, p.proowner)
    loop
        execute format('grant execute on function perdure.%I to %s%s', g.name, g.role,
            case when g.is_grantable then ' with grant option' else '' end);
    end loop;
end $$;

drop function perdure.start_before;
drop function perdure.restart_before;
drop function perdure.adopt_before;
revoke all on all functions in schema perdure from public;
