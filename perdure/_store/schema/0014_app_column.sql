-- A batch of writes is durable whatever the session has, and never touches a table of the app: the app's own column is
-- written afterwards, in a transaction of its own.

-- What each move has to show. It is appended to only: a move waits for nobody who shows an earlier one.
alter table perdure.behind
    drop constraint behind_pkey,
    add column version bigint not null default 0,
    add column tries int not null default 0,
    add primary key (lifecycle, id, version);
create index behind_due on perdure.behind (tries, next_try);

-- Applies the mirror part. The caller holds the row of `ident`. The answer says nothing any more.
create or replace function perdure.apply_move(w jsonb) returns text
language plpgsql as $$
declare
    l text := w->>'lifecycle';
    e text := w->>'id';
    m jsonb := w->'move';
    c jsonb := nullif(w->'column', 'null');
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
    if c is not null then
        insert into perdure.behind (lifecycle, id, version, app_table, app_column, app_key)
            values (l, e, (w->>'version')::bigint, c->>'table', c->>'column', c->>'key');
    end if;
    return null;
end $$;

-- A batch, in the order given, all or none but for the entities that somebody else holds. A reply means that it is on disk:
-- else the crash of one backend would lose the fence, and what it stands for would be done twice (invariant 2).
create or replace function perdure.apply_writes(batch jsonb) returns setof jsonb
language plpgsql as $$
declare
    w jsonb;
begin
    perform perdure.check_database();
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    for w in select value from jsonb_array_elements(batch) loop
        return next perdure.apply_write(w);
    end loop;
end $$;

drop function perdure.show_in_app(text, text, text, text, text);

-- Shows in the app's own row how far an entity is: 'shown', 'held' (the app holds its row) or 'missing' (it has none); null
-- where nothing is to be shown, or another follower does it now. It waits for nobody; the app's triggers are the app's.
create function perdure.show_in_app(lifecycle text, entity_id text) returns text
language plpgsql as $$
#variable_conflict use_column
declare
    b perdure.behind;
    upto bigint;
    newest text;
    app_row text;
    locked boolean;
    present boolean;
begin
    -- One follower at a time, and it reads the state afterwards: so the column never goes back.
    if not pg_try_advisory_xact_lock(hashtextextended(show_in_app.lifecycle || '/' || entity_id, x'666f6c6c'::bigint)) then
        return null;
    end if;
    select * into b from perdure.behind x
        where x.lifecycle = show_in_app.lifecycle and x.id = entity_id order by version desc limit 1;
    if not found then
        return null;
    end if;
    app_row := format('from %s where %I = %L', b.app_table::regclass, b.app_key, entity_id);
    execute 'select true ' || app_row || ' for no key update skip locked' into locked;
    if locked is null then
        execute format('select exists (select %s)', app_row) into present;
        if present then
            update perdure.behind x set error = null, tries = x.tries + 1,
                next_try = clock_timestamp() + least(interval '50 ms' * power(2, least(x.tries, 20)), interval '5 s')
                where x.lifecycle = show_in_app.lifecycle and x.id = entity_id;
            return 'held';
        end if;
    end if;
    select i.version, coalesce(i.final, x.state) into upto, newest
        from perdure.ident i left join perdure.entity x using (lifecycle, id)
        where i.lifecycle = show_in_app.lifecycle and i.id = entity_id;
    if locked and newest is not null then
        execute format('update %s set %I = %L where %I = %L', b.app_table::regclass, b.app_column, newest, b.app_key, entity_id);
    end if;
    delete from perdure.behind x where x.lifecycle = show_in_app.lifecycle and x.id = entity_id and x.version <= upto;
    return case when locked then 'shown' else 'missing' end;
end $$;

-- Shows what is due, all or none. Returns how many are settled, and how many are due still.
create or replace function perdure.follow(most int default 100, out settled int, out waiting int)
language plpgsql as $$
declare
    each record;
begin
    settled := 0;
    for each in
        select distinct lifecycle, id from (
            select lifecycle, id from perdure.behind where next_try <= clock_timestamp() order by tries, next_try limit most) due
        order by 1, 2
    loop
        settled := settled + coalesce((perdure.show_in_app(each.lifecycle, each.id) in ('shown', 'missing'))::int, 0);
    end loop;
    set constraints all immediate; -- has the app's deferred triggers fire here: the commit itself has no time-out
    select count(*) into waiting from (select from perdure.behind where next_try <= clock_timestamp() limit 1000) few;
end $$;

revoke all on all functions in schema perdure from public;
