-- Starting and restarting in the app's own transaction.

-- Starts the lifecycle of an entity: 'started', 'open' (it runs already) or 'finished' (it has ended).
create function perdure.start(lifecycle text, entity_id text, input jsonb, state text default 'pending', tenant text default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    over text;
begin
    if coalesce(start.lifecycle, '') !~ '^[a-z][a-z0-9_-]{0,62}$' then
        raise exception 'perdure.start: % is not the name of a lifecycle', coalesce(quote_literal(start.lifecycle), 'null')
            using hint = 'Give the name in its @workflow.defn(name=...): a-z, 0-9, _ and -.', errcode = 'invalid_parameter_value';
    end if;
    if entity_id is null or octet_length(entity_id) not between 1 and 900 or entity_id ~ '[[:cntrl:]]' or entity_id <> btrim(entity_id) then
        raise exception 'perdure.start: % can not be an entity id', coalesce(quote_literal(left(entity_id, 60)), 'null')
            using hint = 'Give the key of your row: printable, 1 to 900 bytes.', errcode = 'invalid_parameter_value';
    end if;
    insert into ident (lifecycle, id) values (start.lifecycle, entity_id) on conflict do nothing;
    if not found then
        select final into over from ident i where i.lifecycle = start.lifecycle and i.id = entity_id;
        return case when over is null then 'open' else 'finished' end;
    end if;
    insert into entity (lifecycle, id, round, state, input, tenant)
        values (start.lifecycle, entity_id, 0, start.state, start.input, start.tenant);
    insert into transition (lifecycle, id, round, version, state) values (start.lifecycle, entity_id, 0, 0, start.state);
    insert into outbox (lifecycle, id, round, kind) values (start.lifecycle, entity_id, 0, 'start');
    return 'started';
end $$;

-- Runs a finished entity again, as a new round with new keys. Returns the round.
create function perdure.restart(lifecycle text, entity_id text, made_by text, note text, state text default 'pending', input jsonb default null)
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
    insert into outbox (lifecycle, id, round, kind) values (restart.lifecycle, entity_id, i.round + 1, 'start');
    return i.round + 1;
end $$;

-- Says what became of an effect that was in doubt when its entity ended (expired, cancelled). Returns its status.
create function perdure.settle(lifecycle text, entity_id text, effect text, outcome text, made_by text, note text, receipt jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    e effect;
begin
    select * into i from ident x where x.lifecycle = settle.lifecycle and x.id = entity_id for no key update;
    select * into e from effect x where x.lifecycle = settle.lifecycle and x.id = entity_id
        and (x.effect = settle.effect or x.key = settle.effect or settle.effect is null)
        and x.status in ('attempting', 'in_doubt') order by x.first_at limit 1;
    if e.key is null then
        raise exception 'perdure.settle: nothing of %/% is in doubt', settle.lifecycle, entity_id
            using hint = 'Its effects stand in perdure.effect.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if i.final is null then
        raise exception 'perdure.settle: %/% is still open', settle.lifecycle, entity_id
            using hint = 'Send its workflow the update resolve.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if outcome not in ('done', 'not_done', 'abandoned') or outcome is null then
        raise exception 'perdure.settle: % is no outcome', coalesce(quote_literal(outcome), 'null')
            using hint = 'Say done, not_done or abandoned.', errcode = 'invalid_parameter_value';
    end if;
    update effect x set status = outcome, receipt = coalesce(settle.receipt, x.receipt), why = note, settled_by = made_by
        where x.key = e.key;
    return outcome;
end $$;

revoke all on all functions in schema perdure from public;
