-- The state of an entity, or null if there is no such id. It includes the scope of this database, because a client with another scope
-- would query the workflow of another database. The time zone is set, so that all times have one format. An effect of an earlier
-- generation can be in doubt, if its outcome arrived after a restore: a person settles it once the entity has ended.
create or replace function perdure.status_any(lifecycle text, entity_id text) returns jsonb
language plpgsql stable security definer set search_path = perdure, pg_temp set timezone = 'UTC' as $$
begin
    return (select jsonb_build_object(
        'lifecycle', i.lifecycle, 'id', i.id, 'generation', i.generation,
        'state', coalesce(e.state, i.final), 'final', i.final is not null,
        'since', coalesce(e.since, (
            select f.finished_at from finished f where f.lifecycle = i.lifecycle and f.id = i.id and f.generation = i.generation
            order by f.finished_at desc limit 1)),
        'attention', e.attention, 'tenant', e.tenant,
        'waits_for_delivery', exists (
            select from outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'start'),
        'messages_waiting', (
            select count(*) from outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'message'),
        'rejected', (
            select r.reason from rejected r where r.lifecycle = i.lifecycle and r.id = i.id and r.generation = i.generation
            order by r.seq desc limit 1),
        'scope', (select d.scope from database d where d.mark is not null),
        'effects', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'key', x.key, 'effect', x.effect, 'status', x.status, 'attempts', x.attempts, 'first_at', x.first_at,
                'deadline', x.deadline, 'receipt', x.receipt, 'why', x.why, 'settled_by', x.settled_by)
                order by x.first_at, x.key), '[]')
            from effect x where x.lifecycle = i.lifecycle and x.id = i.id and (x.generation = i.generation
                or i.final is not null and x.status in ('attempting', 'in_doubt'))))
        from ident i left join entity e on e.lifecycle = i.lifecycle and e.id = i.id
        where i.lifecycle = status_any.lifecycle and i.id = entity_id);
end $$;

-- The same act for a role that is limited to lifecycles or tenants, if it has the permission.
create or replace function perdure.status_scoped(lifecycle text, entity_id text)
returns jsonb language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    perform perdure.permit('status', '{app,operator,console,reader}', lifecycle, perdure.tenants(lifecycle, entity_id));
    return perdure.status_any(lifecycle, entity_id);
end $$;

-- The function to call. It has the rights of its caller, and calls the first of the two above that the caller may execute. So a
-- function or a trigger of an application that runs with the rights of its owner needs only the rights of that owner.
create or replace function perdure.status(lifecycle text, entity_id text)
returns jsonb language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.status_any(text,text)', 'execute') then
        return perdure.status_any(lifecycle, entity_id);
    end if;
    return perdure.status_scoped(lifecycle, entity_id);
end $$;
