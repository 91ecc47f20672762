-- Erases the record of a finished entity, except the fact that it finished, and what is left of one whose first start was rejected
-- and dropped. Returns the number of deleted rows by table. It does not reach the workflow's history in Temporal, archives and the
-- app's own row.
create or replace function perdure.forget(lifecycle text, entity_id text, made_by text) returns jsonb
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    doubtful text;
    newest bigint;
    part record;
    gone int;
    deleted jsonb := '{}';
begin
    perform check_read_committed('forget');
    if coalesce(made_by, '') = '' or length(made_by) > 200 then
        raise exception 'perdure.forget: made_by % can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Give who requests it, in 1 to 200 characters.', errcode = 'invalid_parameter_value';
    end if;
    if not pg_try_advisory_xact_lock_shared(hashtext('perdure.archive')) then
        raise exception 'perdure.forget: a month is being exported or dropped, and might keep %/%', forget.lifecycle, entity_id
            using hint = 'Wait until that is over, and ask again.', errcode = 'object_not_in_prerequisite_state';
    end if;
    perform pg_advisory_xact_lock(hashtextextended(forget.lifecycle || '/' || entity_id, x'70657264'::bigint)); -- as a relay does
    select * into i from ident x where x.lifecycle = forget.lifecycle and x.id = entity_id for no key update;
    if not found and not exists (select from transition x where x.lifecycle = forget.lifecycle and x.id = entity_id) then
        raise exception 'perdure.forget: there is no %/%', forget.lifecycle, entity_id
            using hint = 'It was never started, or its transaction was rolled back.', errcode = 'no_data_found';
    end if;
    if i.id is not null and i.final is null then
        raise exception 'perdure.forget: %/% is still open', i.lifecycle, i.id
            using hint = 'Cancel it first, and wait for its end.', errcode = 'object_not_in_prerequisite_state';
    end if;
    select key into doubtful from effect x where x.lifecycle = forget.lifecycle and x.id = entity_id and x.status in ('attempting', 'in_doubt') limit 1;
    if found then
        raise exception 'perdure.forget: whether % happened is not known', quote_literal(doubtful)
            using hint = 'Settle it first (perdure resolve): afterwards nobody could.', errcode = 'object_not_in_prerequisite_state';
    end if;
    newest := take_version(forget.lifecycle, entity_id);
    update ident x set tenant = null where x.lifecycle = forget.lifecycle and x.id = entity_id;
    delete from kept_effect k using effect x where x.lifecycle = forget.lifecycle and x.id = entity_id and k.key = x.key;
    foreach doubtful in array array['effect', 'message', 'outbox', 'rejected', 'finding', 'carried_transition'] loop
        execute format('delete from perdure.%I x where x.lifecycle = $1 and x.id = $2', doubtful) using forget.lifecycle, entity_id;
        get diagnostics gone = row_count;
        deleted := deleted || jsonb_build_object(doubtful, gone);
    end loop;
    update behind b set error = null where b.lifecycle = forget.lifecycle and b.id = entity_id; -- the app's row still has to show the end
    -- Table by table, because a month that is being dropped is no partition any more.
    for part in select c.relname, left(c.relname, -8) as parent, to_date(right(c.relname, 7), 'YYYY_MM') as month
        from pg_class c where c.relnamespace = 'perdure'::regnamespace and c.relkind = 'r'
            and c.relname ~ '^(finished|transition)_[0-9]{4}_[0-9]{2}$'
    loop
        execute format('delete from perdure.%I where lifecycle = $1 and id = $2', part.relname) using forget.lifecycle, entity_id;
        get diagnostics gone = row_count;
        deleted := deleted || jsonb_build_object(part.parent, coalesce((deleted->>part.parent)::int, 0) + gone);
        update month m set forgotten = m.forgotten || jsonb_build_object(part.parent, coalesce((m.forgotten->>part.parent)::int, 0) + gone)
            where m.month = part.month and gone > 0;
    end loop;
    if not deleted ?& '{finished,transition}' then
        raise exception 'perdure.forget: the tables of the months are missing, so %/% was not erased', forget.lifecycle, entity_id
            using hint = 'Make them: perdure migrate.', errcode = 'object_not_in_prerequisite_state';
    end if;
    if i.id is not null then
        insert into transition (lifecycle, id, generation, version, state, why, made_by)
            values (i.lifecycle, i.id, i.generation, newest, i.final, 'forgotten', forget.made_by);
    end if;
    return deleted;
end $$;
