-- Lets the relay start an open entity again whose workflow is gone. The new run continues from the record; messages since the
-- snapshot are delivered again in the same order. False, and nothing is changed, if the entity is not open, was written since
-- `version`, or its start is on its way or was rejected. The caller has checked that no workflow of the entity is open.
-- A recovery fills the outbox, and PostgreSQL plans for the empty one that it saw last. So the plan may not sort, and the order leads
-- it to the primary key: otherwise each entity would read the rows of all others.
create or replace function perdure.start_again_any(lifecycle text, entity_id text, generation int, version bigint, made_by text, why text) returns boolean
language plpgsql security definer set search_path = perdure, pg_temp set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
#variable_conflict use_column
declare
    i ident;
begin
    -- As a relay does: one that has delivered a message to the old workflow, and not committed that, would delete what is delivered again.
    perform pg_advisory_xact_lock(hashtextextended(start_again_any.lifecycle || '/' || entity_id, x'70657264'::bigint));
    i := perdure.hold_open(start_again_any.lifecycle, entity_id, start_again_any.generation, start_again_any.version);
    if i.id is null
        or (select o.seq from outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'start' order by o.seq limit 1)
            is not null
        or exists (select from rejected r where r.lifecycle = i.lifecycle and r.id = i.id and r.generation = i.generation and r.kind = 'start')
    then
        return false;
    end if;
    -- The end of the old workflow needed a person. The next workflow sets its own reason.
    update entity e set attention = null where e.lifecycle = i.lifecycle and e.id = i.id and e.attention like 'its workflow %';
    perform perdure.note(i.lifecycle, i.id, start_again_any.made_by, start_again_any.why);
    perform perdure.deliver_again(i.lifecycle, i.id);
    return true;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.start_again_scoped(lifecycle text, entity_id text, generation int, version bigint, made_by text, why text)
returns boolean language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('start_again', '{operator,console}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.start_again_any(lifecycle, entity_id, generation, version, made_by, why);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.start_again(lifecycle text, entity_id text, generation int, version bigint, made_by text, why text)
returns boolean language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.start_again_any(text,text,integer,bigint,text,text)', 'execute') then
        return perdure.start_again_any(lifecycle, entity_id, generation, version, made_by, why);
    end if;
    return perdure.start_again_scoped(lifecycle, entity_id, generation, version, made_by, why);
end $$;
