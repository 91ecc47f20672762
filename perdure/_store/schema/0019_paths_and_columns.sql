-- No function resolves a name by the path of its caller's session, and the column of the app's own table is written by a
-- session that needs nothing else. It only adds: workers of earlier releases run on it.

-- The columns that lifecycles declare, by the names that PostgreSQL resolved when the owner of the schema declared them
-- (`perdure grant ROLE --as column`, or a worker that owns the schema). An order, which stands in Temporal, names no table.
create table perdure.app_column (
    lifecycle    text primary key collate "C",
    app_table    text not null, -- quoted, with its schema
    key_column   text not null,
    state_column text not null
);

-- The path that this session would have without Perdure.
create function perdure.path_of_session() returns text
language sql stable set search_path = perdure, pg_temp
return (select s.reset_val from pg_settings s where s.name = 'search_path');

-- The full name of a table of the app, as the path of the session resolves it; null where there is none.
create function perdure.app_table(given text) returns text
language plpgsql set search_path = perdure, pg_temp as $$
declare
    found_table oid;
begin
    perform set_config('search_path', perdure.path_of_session(), true);
    found_table := pg_catalog.to_regclass(given);
    perform pg_catalog.set_config('search_path', 'perdure, pg_temp', true);
    return (select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = found_table);
end $$;

update perdure.behind b set app_table = coalesce(perdure.app_table(b.app_table), b.app_table);

-- Applies the mirror part. The caller holds the row of `ident`. The answer has no meaning any more.
create or replace function perdure.apply_move(w jsonb) returns text
language plpgsql as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    m jsonb := w->'move';
    c perdure.app_column;
    is_final boolean := coalesce((m->>'final')::boolean, false);
    now_at timestamptz := clock_timestamp();
    old perdure.entity;
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
        insert into perdure.entity as x (lifecycle, id, round, state, since, stuck_at, attention, input, snapshot, memory, heard,
                workflow_id)
            values (l, e, (w->>'round')::int, m->>'state', now_at, now_at + make_interval(secs => (m->>'within')::float),
                m->>'attention', nullif(w->'input', 'null'), nullif(m->'snapshot', 'null'),
                nullif(m->'memory', 'null'), coalesce((m->>'heard')::int, 0), w->>'workflow_id')
            on conflict (lifecycle, id) do update set
                state = excluded.state,
                since = case when x.state = excluded.state then x.since else excluded.since end,
                stuck_at = case when x.state = excluded.state then x.stuck_at else excluded.stuck_at end,
                attention = excluded.attention,
                snapshot = coalesce(excluded.snapshot, x.snapshot),
                memory = excluded.memory,
                input = coalesce(x.input, excluded.input),
                heard = greatest(x.heard, excluded.heard),
                workflow_id = excluded.workflow_id;
    end if;
    select * into c from perdure.app_column x where x.lifecycle = l;
    -- Workers of 0.2.0 declare nothing, and own the schema: their orders still name the column.
    if c.lifecycle is null and jsonb_typeof(w->'column') = 'object' and has_table_privilege('perdure.app_column', 'insert') then
        c := (l, coalesce(perdure.app_table(w->'column'->>'table'), w->'column'->>'table'), w->'column'->>'key', w->'column'->>'column');
    end if;
    if c.lifecycle is not null then
        insert into perdure.behind (lifecycle, id, version, app_table, app_column, app_key)
            values (l, e, (w->>'version')::bigint, c.app_table, c.state_column, c.key_column);
    end if;
    return null;
end $$;

-- The session that writes the app's columns runs the triggers of the app's tables, and these can do whatever that session may: a
-- function that runs with the rights of its owner is no protection, because a trigger can open a cursor whose query runs at the
-- commit, with the rights of the session. So this session may have these functions and the columns, and nothing else.

-- Entities whose columns are due, those that were tried least first, `most` at once; or `most` of each table.
create function perdure.columns_due(most int, by_table boolean default false)
returns table (app_table text, lifecycle text, id text)
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    if by_table then
        return query select d.app_table, d.lifecycle, d.id from (
                select b.app_table, b.lifecycle, b.id, row_number() over (partition by b.app_table order by min(b.tries), min(b.next_try)) n
                from behind b where b.next_try <= clock_timestamp() group by 1, 2, 3) d
            where d.n <= most order by d.app_table, d.n;
    else
        return query select distinct null::text, d.lifecycle, d.id from (
                select b.lifecycle, b.id from behind b where b.next_try <= clock_timestamp() order by b.tries, b.next_try limit most) d
            order by 2, 3;
    end if;
end $$;

-- How many columns are due; at most 1000 are counted.
create function perdure.columns_waiting() returns int
language sql stable security definer set search_path = perdure, pg_temp
return (select count(*)::int from (select from perdure.behind b where b.next_try <= clock_timestamp() limit 1000) few);

-- Takes an entity whose column is due until the transaction ends: its place in the app's database. Null where nothing is due, or
-- where another session has taken it. It locks a row, which needs a right on the table; everybody can hold an advisory lock.
create function perdure.take_column(lifecycle text, entity_id text, out app_table text, out key_column text, out state_column text)
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    oldest bigint := (select min(b.version) from behind b where b.lifecycle = take_column.lifecycle and b.id = entity_id);
begin
    perform from behind b where b.lifecycle = take_column.lifecycle and b.id = entity_id and b.version = oldest for update skip locked;
    if found then
        select b.app_table, b.app_key, b.app_column into take_column.app_table, take_column.key_column, take_column.state_column
            from behind b where b.lifecycle = take_column.lifecycle and b.id = entity_id order by b.version desc limit 1;
    end if;
end $$;

-- The newest state of an entity that was taken.
create function perdure.column_state(lifecycle text, entity_id text, out upto bigint, out state text)
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    select i.version, coalesce(i.final, x.state) into upto, column_state.state
        from ident i left join entity x on x.lifecycle = i.lifecycle and x.id = i.id
        where i.lifecycle = column_state.lifecycle and i.id = entity_id
            and exists (select from behind b where b.lifecycle = i.lifecycle and b.id = i.id);
end $$;

-- The column shows what the entity was up to this version, or there is no row to show it.
create function perdure.column_shown(lifecycle text, entity_id text, upto bigint) returns void
language sql security definer set search_path = perdure, pg_temp as $$
    delete from behind b where b.lifecycle = $1 and b.id = $2 and b.version <= $3
$$;

-- The column is tried again later: the app holds its row, or refused the value; `why` says which.
create function perdure.put_off_column(lifecycle text, entity_id text, why text) returns void
language sql security definer set search_path = perdure, pg_temp as $$
    update behind b set error = left($3, 500), tries = b.tries + 1,
        next_try = clock_timestamp() + case when $3 is null
            then least(interval '50 ms' * power(2, least(b.tries, 20)), interval '5 s')
            else least(interval '1 s' * power(2, least(b.tries, 20)), interval '1 minute') end
        where b.lifecycle = $1 and b.id = $2
$$;

-- Shows in the app's own row how far an entity is: 'shown', 'held' (the app holds its row) or 'missing' (it has none); null
-- where nothing is to be shown, or another session does it now. It waits for nobody; the app's triggers are the app's.
create or replace function perdure.show_in_app(lifecycle text, entity_id text) returns text
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    place record;
    newest record;
    app_row text;
    locked boolean;
    present boolean;
begin
    -- One session at a time, and it reads the state afterwards: so the column never goes back.
    select * into place from perdure.take_column(show_in_app.lifecycle, entity_id);
    if place.app_table is null then
        return null;
    end if;
    app_row := format('from %s where %I = %L', place.app_table::regclass, place.key_column, entity_id);
    execute 'select true ' || app_row || ' for no key update skip locked' into locked;
    if locked is null then
        execute format('select exists (select %s)', app_row) into present;
        if present then
            perform perdure.put_off_column(show_in_app.lifecycle, entity_id, null);
            return 'held';
        end if;
    end if;
    select * into newest from perdure.column_state(show_in_app.lifecycle, entity_id);
    if locked and newest.state is not null then
        -- The app's triggers find their tables by it. `follow` asks for it once: PostgreSQL computes every setting for the answer.
        perform set_config('search_path', coalesce(nullif(current_setting('perdure.apps_path', true), ''), perdure.path_of_session()), true);
        execute pg_catalog.format('update %s set %I = %L where %I = %L', place.app_table::pg_catalog.regclass, place.state_column,
            newest.state, place.key_column, entity_id);
        perform pg_catalog.set_config('search_path', 'perdure, pg_temp', true);
    end if;
    perform perdure.column_shown(show_in_app.lifecycle, entity_id, newest.upto);
    return case when locked then 'shown' else 'missing' end;
end $$;

-- Shows what is due, all or none. Returns how many are settled, and how many are due still.
create or replace function perdure.follow(most int default 100, out settled int, out waiting int)
language plpgsql as $$
declare
    each record;
    path text;
begin
    settled := 0;
    path := perdure.path_of_session();
    perform set_config('perdure.apps_path', path, true);
    for each in select * from perdure.columns_due(most) loop
        settled := settled + coalesce((perdure.show_in_app(each.lifecycle, each.id) in ('shown', 'missing'))::int, 0);
    end loop;
    perform set_config('search_path', path, true);
    set constraints all immediate; -- has the app's deferred triggers fire here: the commit itself has no time-out
    perform pg_catalog.set_config('search_path', 'perdure, pg_temp', true);
    waiting := perdure.columns_waiting();
end $$;

-- Makes the partitions of this month and the next `ahead` ones; safe to call at any time. One session at a time: the lock is of a
-- table, which needs a right on it, and which no other work takes.
create or replace function perdure.make_months(ahead int default 24) returns int
language plpgsql security definer set search_path = perdure, pg_temp as $$
declare
    made int := 0;
begin
    lock table perdure.migration in share row exclusive mode;
    -- UTC, so that servers in any zone agree on what a month is; one month back for clocks that differ.
    for months in -1..ahead loop
        made := made + make_month(
            (date_trunc('month', clock_timestamp() at time zone 'UTC') + make_interval(months => months))::date);
    end loop;
    return made;
end $$;

-- A name without its schema is looked for in the caller's path where a function has none of its own. Whoever may create in a
-- schema of that path could have a function of theirs run in place of the one that is meant.
do $$
declare
    each regprocedure;
begin
    for each in select p.oid from pg_proc p where p.pronamespace = 'perdure'::regnamespace
        and not exists (select from unnest(p.proconfig) c where c like 'search_path=%')
    loop
        execute format('alter function %s set search_path = perdure, pg_temp', each);
    end loop;
end $$;

revoke all on all functions in schema perdure from public;
