-- Rights by lifecycle and tenant, and on record which role made a session's changes. It only adds: workers of earlier releases
-- run on it.

-- What `perdure grant ROLE --as KIND` gave to roles. It holds for the functions below; tables have policies.
create table perdure.permission (
    role      text not null collate "C",
    kind      text not null,
    lifecycle text collate "C" check (lifecycle ~ '^[a-z][a-z0-9_-]{0,62}$'), -- null = every one
    tenant    text,                                                           -- null = every one
    unique nulls not distinct (role, kind, lifecycle, tenant)
);

-- The role that PostgreSQL authenticated. `made_by` is what a caller says; nobody is granted to write this column.
alter table perdure.transition add column session_role text;
alter table perdure.transition alter column session_role set default session_user;
alter table perdure.carried_transition add column session_role text;

do $$
begin
    execute replace(pg_get_functiondef('perdure.feed'::regproc), 'xid, seq, effect, n)', 'xid, seq, effect, session_role, n)');
end $$;

-- The role whose permissions hold: the one that SET ROLE chose, else the one that was authenticated. A function with the rights of
-- its owner does not change it.
create function perdure.asking_role() returns text
language sql stable set search_path = perdure, pg_temp
return coalesce(nullif(current_setting('role'), 'none'), session_user::text);

-- The tenants that are on record of an entity.
create function perdure.tenants(lifecycle text, entity_id text) returns text[]
language sql stable security definer set search_path = perdure, pg_temp as $$
    select array(select tenant from entity e where e.lifecycle = $1 and e.id = $2 and tenant is not null
        union select tenant from finished f where f.lifecycle = $1 and f.id = $2 and tenant is not null)
$$;

-- Whether the role that asks was granted one of these kinds for an entity.
create function perdure.permitted(kinds text[], lifecycle text, tenants text[]) returns boolean
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    return exists (select from permission p
        where p.kind = any(kinds) and (p.lifecycle is null or p.lifecycle = permitted.lifecycle)
            and (p.tenant is null or p.tenant = any(permitted.tenants))
            and exists (select from pg_roles r where r.rolname = p.role and pg_has_role(asking_role(), r.oid, 'usage')));
end $$;

-- Refuses what the role that asks was not granted.
create function perdure.permit(verb text, kinds text[], lifecycle text, tenants text[]) returns void
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    if not permitted(kinds, permit.lifecycle, permit.tenants) then
        raise exception 'perdure.%: the role % has no permission for this entity of %', verb, quote_ident(asking_role()),
                coalesce(quote_literal(left(permit.lifecycle, 63)), 'null')
            using hint = format('The owner of the schema runs: perdure grant %I --as %s --lifecycle NAME', asking_role(), kinds[1]),
                errcode = 'insufficient_privilege';
    end if;
end $$;

-- Each function that apps and operators call becomes three. NAME_any does the work, for whoever may execute it. NAME_scoped does it
-- where the asking role has a permission. NAME has the rights of its caller, and takes the first one that this caller may execute:
-- so a function or trigger of an application that runs with the rights of its owner needs only what its owner has.
do $$
declare
    f record;
    call text;
    returning text;
    sql text;
    g record;
begin
    for f in
        select p.oid, p.proname as name, pg_get_function_arguments(p.oid) as arguments, pg_get_function_identity_arguments(p.oid) as identity,
            pg_get_function_result(p.oid) as result, p.proretset as many, w.*, p.proacl, p.proowner, p.provolatile,
            (select string_agg(format('%I.%I', p.proname, a), ', ' order by n)
                from unnest(p.proargnames[1:p.pronargs]) with ordinality x(a, n)) as given
        from pg_proc p join (values
            ('start', '{app}', 'start.lifecycle', 'array[start.tenant]'),
            ('signal', '{app,callbacks}', 'signal.lifecycle', 'perdure.tenants(signal.lifecycle, signal.entity_id)'),
            ('cancel', '{app,operator,console}', 'cancel.lifecycle', 'perdure.tenants(cancel.lifecycle, cancel.entity_id)'),
            ('status', '{app,operator,console,reader}', 'status.lifecycle', 'perdure.tenants(status.lifecycle, status.entity_id)'),
            ('restart', '{operator,console}', 'restart.lifecycle', 'perdure.tenants(restart.lifecycle, restart.entity_id)'),
            ('settle', '{operator,console}', 'settle.lifecycle', 'perdure.tenants(settle.lifecycle, settle.entity_id)'),
            ('note', '{operator,console}', 'note.lifecycle', 'perdure.tenants(note.lifecycle, note.entity_id)'),
            ('start_again', '{operator,console}', 'start_again.lifecycle', 'perdure.tenants(start_again.lifecycle, start_again.entity_id)'),
            ('adopt', '{operator}', 'adopt.lifecycle', 'null'),
            ('retry_rejected', '{operator,console}', '(select r.lifecycle from perdure.rejected r where r.seq = retry_rejected.seq)',
                '(select perdure.tenants(r.lifecycle, r.id) from perdure.rejected r where r.seq = retry_rejected.seq)'),
            ('drop_rejected', '{operator,console}', '(select r.lifecycle from perdure.rejected r where r.seq = drop_rejected.seq)',
                '(select perdure.tenants(r.lifecycle, r.id) from perdure.rejected r where r.seq = drop_rejected.seq)')
            ) w (verb, kinds, lifecycle, tenants) on w.verb = p.proname
        where p.pronamespace = 'perdure'::regnamespace
    loop
        execute format('alter function perdure.%I(%s) rename to %I', f.name, f.identity, f.name || '_any');
        execute regexp_replace(pg_get_functiondef(f.oid), '\m' || f.name || '\.(?=[a-z])', f.name || '_any.', 'g'); -- its parameters
        -- The volatility of the one that it calls: a stable function sees the snapshot of its statement.
        sql := case f.provolatile when 's' then 'stable ' else '' end || 'set search_path = perdure, pg_temp as ';
        execute format('create function perdure.%I(%s) returns %s language plpgsql security definer ', f.name || '_scoped', f.arguments, f.result)
            || sql || quote_literal(format('begin perform perdure.permit(%L, %L, %s, %s); return perdure.%I(%s); end',
                f.name, f.kinds, replace(f.lifecycle, f.name || '.', f.name || '_scoped.'), replace(f.tenants, f.name || '.', f.name || '_scoped.'),
                f.name || '_any', replace(f.given, quote_ident(f.name) || '.', f.name || '_scoped.')));
        execute format('create function perdure.%I(%s) returns %s language plpgsql ', f.name, f.arguments, f.result)
            || sql || quote_literal(format('begin if has_function_privilege(%L, ''execute'') then return perdure.%I(%s); end if; return perdure.%I(%s); end',
                f.oid::regprocedure, f.name || '_any', f.given, f.name || '_scoped', f.given));
        for g in select a.grantee::regrole as role, a.is_grantable from aclexplode(f.proacl) a where a.grantee not in (0, f.proowner) loop
            execute format('grant execute on function perdure.%I to %s%s', f.name, g.role, case when g.is_grantable then ' with grant option' else '' end);
        end loop;
    end loop;
end $$;

-- The feed for a role with permissions: the transitions that it may see. A position of the feed stands for all that is before it, so
-- it holds for each role.
alter function perdure.feed(text, int) rename to feed_any;

create function perdure.feed_scoped(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, round int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    kinds constant text[] := '{app,operator,console,reader}';
    place text := after;
    seen int;
    given int := 0;
begin
    if not exists (select from permission p join pg_roles r on r.rolname = p.role
            where p.kind = any(kinds) and pg_has_role(asking_role(), r.oid, 'usage')) then
        perform permit('feed', kinds, null, null);
    end if;
    loop
        seen := 0;
        for "position", lifecycle, id, round, version, state, attention, why, made_by, at in
            select x."position", x.lifecycle, x.id, x.round, x.version, x.state, x.attention, x.why, x.made_by, x.at from perdure.feed_any(place, most) x
        loop
            seen := seen + 1;
            place := feed_scoped."position";
            if permitted(kinds, feed_scoped.lifecycle, tenants(feed_scoped.lifecycle, feed_scoped.id)) then
                given := given + 1;
                return next;
                exit when given = most;
            end if;
        end loop;
        exit when given = most or seen < most;
    end loop;
end $$;

create function perdure.feed(after text default null, most int default 100)
returns table ("position" text, lifecycle text, id text, round int, version bigint, state text, attention text, why text,
    made_by text, at timestamptz)
language plpgsql set search_path = perdure, pg_temp as $$
begin
    if has_function_privilege('perdure.feed_any(text, int)', 'execute') then
        return query select * from perdure.feed_any(after, most);
    else
        return query select * from perdure.feed_scoped(after, most);
    end if;
end $$;

do $$
declare
    g record;
begin
    for g in select a.grantee::regrole as role, a.is_grantable from pg_proc p, aclexplode(p.proacl) a
        where p.oid = 'perdure.feed_any'::regproc and a.grantee not in (0, p.proowner)
    loop
        execute format('grant execute on function perdure.feed to %s%s', g.role, case when g.is_grantable then ' with grant option' else '' end);
    end loop;
end $$;

revoke all on all functions in schema perdure from public;
