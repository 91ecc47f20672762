-- Gives up a rejected row. After a first start, the entity may be started again as if for the first time. After a restart, it is
-- finished again as before. Messages behind a start are deleted with it. Returns the kind.
create or replace function perdure.drop_rejected_any(seq bigint, made_by text, note text default '')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    held record;
    r rejected;
    i ident;
    was text;
    began effect;
begin
    select * into held from hold_rejected('drop_rejected', drop_rejected_any.seq, made_by, note);
    r := held.r;
    i := held.i;
    if i.id is null or i.generation <> r.generation or i.final is not null then
        delete from message x where x.lifecycle = r.lifecycle and x.id = r.id and x.generation = r.generation and x.message_id = r.message_id;
        return r.kind; -- the entity has no other rows
    end if;
    select x.state into was from entity x where x.lifecycle = r.lifecycle and x.id = r.id;
    if r.kind <> 'start' then
        -- The place stays taken: if the message was processed nevertheless, the next one would count as a repetition. The id is free.
        update message x set kind = 'dropped', message_id = 'perdure-dropped ' || r.seq, payload = null, delivered_at = clock_timestamp()
            where x.lifecycle = r.lifecycle and x.id = r.id and x.generation = r.generation and x.message_id = r.message_id;
        perform note_rejected(r, r.generation, was, made_by, format('rejected %s %s, dropped: %s', r.kind, r.seq, note));
        return r.kind;
    end if;
    if exists (select from entity x where x.lifecycle = r.lifecycle and x.id = r.id and x.workflow_id is not null) then
        raise exception 'perdure.drop_rejected: %/% runs', r.lifecycle, r.id
            using hint = 'Cancel it.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select * into began from effect x where x.lifecycle = r.lifecycle and x.id = r.id and x.generation = r.generation limit 1;
    if found then
        raise exception 'perdure.drop_rejected: % is on record as %', quote_literal(began.key), began.status
            using hint = 'Dropped and started again it could happen twice: perdure.retry_rejected.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if r.generation > 0 then
        select x.state into was from finished x where x.lifecycle = r.lifecycle and x.id = r.id and x.generation = r.generation - 1
            order by x.finished_at desc limit 1;
        if not found then
            raise exception 'perdure.drop_rejected: how %/% ended before is no longer on record', r.lifecycle, r.id
                using hint = 'Deliver it again: perdure.retry_rejected.', errcode = 'object_not_in_prerequisite_state';
        end if;
    end if;
    delete from outbox x where x.lifecycle = r.lifecycle and x.id = r.id;
    delete from message x where x.lifecycle = r.lifecycle and x.id = r.id;
    delete from rejected x where x.lifecycle = r.lifecycle and x.id = r.id and x.generation = r.generation;
    delete from entity x where x.lifecycle = r.lifecycle and x.id = r.id;
    perform note_rejected(r, greatest(r.generation - 1, 0), was, made_by, format('rejected start %s, dropped: %s', r.seq, note));
    if r.generation > 0 then
        update ident x set generation = r.generation - 1, final = was,
                version = (select max(t.version) from transition t where t.lifecycle = r.lifecycle and t.id = r.id)
            where x.lifecycle = r.lifecycle and x.id = r.id
            returning * into i;
        insert into behind (lifecycle, id, version, app_table, app_column, app_key) -- the restart deleted what was due of that end
            select i.lifecycle, i.id, i.version, c.app_table, c.state_column, c.key_column from app_column c where c.lifecycle = i.lifecycle;
    else
        delete from ident x where x.lifecycle = r.lifecycle and x.id = r.id;
    end if;
    return r.kind;
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.drop_rejected_scoped(seq bigint, made_by text, note text default '')
returns text language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('drop_rejected', '{operator,console}',
        (select r.lifecycle from perdure.rejected r where r.seq = drop_rejected_scoped.seq),
        (select perdure.tenants(r.lifecycle, r.id) from perdure.rejected r where r.seq = drop_rejected_scoped.seq));
    return perdure.drop_rejected_any(seq, made_by, note);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.drop_rejected(seq bigint, made_by text, note text default '')
returns text language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.drop_rejected_any(bigint,text,text)', 'execute') then
        return perdure.drop_rejected_any(seq, made_by, note);
    end if;
    return perdure.drop_rejected_scoped(seq, made_by, note);
end $$;
