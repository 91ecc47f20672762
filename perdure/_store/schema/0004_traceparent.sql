-- The trace in which an app started an entity goes along with it. It only adds: workers of the release before run on it.

alter table perdure.outbox add column traceparent text;

-- W3C Trace Context, 3.2. What is malformed is left out: no trace is worth a transaction of the app.
create function perdure.checked_traceparent(given text) returns text
language plpgsql immutable as $$
begin
    return case when given ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
        and substr(given, 4, 32) <> repeat('0', 32) and substr(given, 37, 16) <> repeat('0', 16) then given end;
end $$;

-- A new parameter makes a new function. The old one stays until whoever may execute it may execute the new one.
alter function perdure.restart(text, text, text, text, text, jsonb) rename to restart_before;

-- Runs a finished entity again, as a new round with new keys. Returns the round.
create function perdure.restart(lifecycle text, entity_id text, made_by text, note text, state text default 'pending',
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
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (restart.lifecycle, entity_id, i.round + 1, restart.state, coalesce(restart.input, last.input), last.tenant);
    insert into transition (lifecycle, id, round, version, state, why, made_by)
        values (restart.lifecycle, entity_id, i.round + 1, i.version + 1, restart.state, note, restart.made_by);
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
        where p.pronamespace = 'perdure'::regnamespace and p.proname = 'restart_before'
            and a.grantee not in (0, p.proowner)
    loop
        execute format('grant execute on function perdure.%I to %s%s', g.name, g.role,
            case when g.is_grantable then ' with grant option' else '' end);
    end loop;
end $$;

drop function perdure.restart_before;
revoke all on all functions in schema perdure from public;
