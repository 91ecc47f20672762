drop function if exists perdure.import_row_any(text, text, jsonb, int, text, text, timestamptz, interval);
drop function if exists perdure.import_row_scoped(text, text, jsonb, int, text, text, timestamptz, interval);
drop function if exists perdure.import_row(text, text, jsonb, int, text, text, timestamptz, interval);

-- Starts the lifecycle of a row of work from before Perdure, as perdure.start does. Give `effect_key` if an older job may have begun
-- the effect: the effect then counts as in doubt, and may be in flight for another `timeout`. So the first attempt finds that record,
-- and the effect's doubt policy decides. `since` null = the begin is so long ago that it is not known. `doubts` takes further effects,
-- as [{"effect": ..., "key": ..., "since": ..., "timeout": ...}]. If the entity was started before and no worker has begun it, the doubt
-- about it is recorded, and the answer is 'in_doubt'.
create or replace function perdure.import_row_any(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0',
    tenant text default null, doubts jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    now_at timestamptz;
    answer text;
    late boolean;
    doubt record;
begin
    perform check_instant('import_row', 'since', import_row_any.since);
    answer := perdure.start(import_row_any.lifecycle, entity_id, import_row_any.input, import_row_any.tenant, priority => import_row_any.priority);
    now_at := clock_timestamp();
    late := answer = 'open' and exists (select from entity e
        where e.lifecycle = import_row_any.lifecycle and e.id = entity_id and e.generation = 0 and e.state = 'starting');
    for doubt in
        select import_row_any.effect, effect_key as key, import_row_any.since, import_row_any.timeout
            where import_row_any.effect is not null or effect_key is not null
        union all
        select d.effect, d.key, d.since, d.timeout
            from jsonb_to_recordset(import_row_any.doubts) d (effect text, key text, since timestamptz, timeout interval)
    loop
        perform check_doubt(import_row_any.lifecycle, entity_id, doubt.effect, doubt.key, doubt.timeout);
        perform check_instant('import_row', 'since', doubt.since);
        continue when answer <> 'started' and not late;
        insert into effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (doubt.key, import_row_any.lifecycle, entity_id, 0, doubt.effect, gen_random_uuid()::text, 'in_doubt', '',
                case when doubt.since is null then 'epoch' else least(doubt.since, now_at) end, least(doubt.since, now_at), now_at + doubt.timeout,
                'imported while processing')
            on conflict do nothing;
        if found and late then
            answer := 'in_doubt';
        elsif not found and not late then
            raise exception 'perdure.import_row: there is a record of % already', quote_literal(left(doubt.key, 60))
                using hint = 'Give the key that the effect of this entity will have.', errcode = 'unique_violation';
        end if;
    end loop;
    return answer;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.import_row_scoped(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0',
    tenant text default null, doubts jsonb default null)
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('import_row', '{operator}', lifecycle, array[tenant]);
    return perdure.import_row_any(lifecycle, entity_id, input, priority, effect, effect_key, since, timeout, tenant, doubts);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.import_row(lifecycle text, entity_id text, input jsonb, priority int default 5,
    effect text default null, effect_key text default null, since timestamptz default null, timeout interval default '0',
    tenant text default null, doubts jsonb default null)
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.import_row_any(text,text,jsonb,integer,text,text,timestamp with time zone,interval,text,jsonb)', 'execute') then
        return perdure.import_row_any(lifecycle, entity_id, input, priority, effect, effect_key, since, timeout, tenant, doubts);
    end if;
    return perdure.import_row_scoped(lifecycle, entity_id, input, priority, effect, effect_key, since, timeout, tenant, doubts);
end $$;
