-- What brings open entities back when their workflows are gone, and what a clean-up writes down. It only adds: workers of
-- earlier releases run on it.

-- What a run remembers beside its snapshot, with its last move: how its effects ended, who asked for its end.
alter table perdure.entity add column memory jsonb;

-- In a copied database: whose it is, what was open in its original. It is never sent from here (invariant 11).
alter table perdure.entity add column left_to text;
alter table perdure.database add column copied_at timestamptz;

-- One row for each clean-up.
create table perdure.clean_up (
    run      bigint      primary key generated always as identity,
    asked_by text        not null,
    began_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    seen     bigint      not null default 0,
    mended   bigint      not null default 0,
    reported bigint      not null default 0,
    summary  jsonb
);

-- What it saw and what was done about it; `about` tells two of one kind and entity apart.
create table perdure.finding (
    kind       text        not null,
    lifecycle  text        not null default '' collate "C",
    id         text        not null default '' collate "C",
    about      text        not null default '' collate "C",
    round      int         not null default 0,
    what       text        not null,
    advice     text        not null default '',
    mended     boolean     not null default false,
    first_seen timestamptz not null default clock_timestamp(),
    last_seen  timestamptz not null default clock_timestamp(),
    run        bigint      not null,
    primary key (kind, lifecycle, id, about)
);

create index finding_by_entity on perdure.finding (lifecycle, id);

-- Applies the mirror part. The caller holds the row of `ident`.
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
    shown text;
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
    if c is null then
        return null;
    end if;
    if w->>'column_error' is null then
        shown := perdure.show_in_app(c->>'table', c->>'key', c->>'column', e, m->>'state');
    else
        shown := 'behind';
    end if;
    if shown = 'behind' then
        insert into perdure.behind as b (lifecycle, id, app_table, app_column, app_key, error)
            values (l, e, c->>'table', c->>'column', c->>'key', w->>'column_error')
            on conflict (lifecycle, id) do update set error = excluded.error, next_try = clock_timestamp();
    end if;
    return shown;
end $$;

-- Puts on record that somebody did something about an entity, in the state that it is in. Returns the version of that
-- entry, null where there is no such entity.
create function perdure.note(lifecycle text, entity_id text, made_by text, why text) returns bigint
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
    noted bigint;
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(why) > 2100 then
        raise exception 'perdure.note: made_by % or its note can not be used', coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Say who, in 1 to 200 characters, and why, in 2000 at most.', errcode = 'invalid_parameter_value';
    end if;
    -- While it is held the entity's entries are in order; `ident` itself stays, for a run that lives may write the next version.
    select * into i from ident x where x.lifecycle = note.lifecycle and x.id = entity_id for no key update;
    if not found then
        return null;
    end if;
    select greatest(i.version, max(t.version)) + 1 into noted from transition t where t.lifecycle = i.lifecycle and t.id = i.id;
    insert into transition (lifecycle, id, round, version, state, attention, why, made_by)
        select i.lifecycle, i.id, i.round, noted, coalesce(e.state, i.final), e.attention, note.why, note.made_by
        from (select) one left join entity e on e.lifecycle = i.lifecycle and e.id = i.id;
    return noted;
end $$;

-- Holds an entity that is open, ours, and was not written since `version`; null if it is not so.
create function perdure.hold_open(lifecycle text, entity_id text, round int, version bigint) returns perdure.ident
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    select * into i from ident x where x.lifecycle = hold_open.lifecycle and x.id = entity_id for no key update;
    if i.final is null and i.round = hold_open.round and i.version = hold_open.version and not exists (
        select from entity e where e.lifecycle = i.lifecycle and e.id = i.id and e.left_to is not null)
    then
        return i;
    end if;
    return null;
end $$;

-- An open entity whose workflow is gone is started again by the relay, and goes on from its record; what it was told since
-- its snapshot is delivered again, in the order of before. False, and nothing is changed, where it is not open, was written
-- since `version`, or its start is on its way or was rejected. The caller has seen that no workflow of it is open.
create function perdure.start_again(lifecycle text, entity_id text, round int, version bigint, made_by text, why text) returns boolean
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    i := perdure.hold_open(start_again.lifecycle, entity_id, start_again.round, start_again.version);
    if i.id is null
        or exists (select from outbox o where o.lifecycle = i.lifecycle and o.id = i.id and o.kind = 'start')
        or exists (select from rejected r where r.lifecycle = i.lifecycle and r.id = i.id and r.round = i.round and r.kind = 'start')
    then
        return false;
    end if;
    -- It was how its workflow had ended that wanted a person; what the next one wants, that one says.
    update entity e set attention = null where e.lifecycle = i.lifecycle and e.id = i.id and e.attention like 'its workflow %';
    perform perdure.note(i.lifecycle, i.id, start_again.made_by, start_again.why);
    perform perdure.deliver_again(i.lifecycle, i.id);
    return true;
end $$;

-- Puts an open entity's start, and what it was told since its snapshot, on the way again. Where its run is open it goes on
-- with that, and hears nothing twice.
create function perdure.deliver_again(lifecycle text, entity_id text) returns void
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    insert into outbox (lifecycle, id, round, kind, body, priority)
        select e.lifecycle, e.id, e.round, 'start', '{"again": true}', 5 from entity e
        where e.lifecycle = deliver_again.lifecycle and e.id = entity_id and not exists (
            select from outbox o where o.lifecycle = e.lifecycle and o.id = e.id and o.kind = 'start');
    insert into outbox (lifecycle, id, round, kind, message_id, priority)
        select m.lifecycle, m.id, m.round, 'message', m.message_id, 5
        from entity e join message m on m.lifecycle = e.lifecycle and m.id = e.id and m.round = e.round
        where e.lifecycle = deliver_again.lifecycle and e.id = entity_id
            and m.ordinal > e.heard and m.kind <> 'dropped'
            and not exists (
                select from outbox o where o.lifecycle = m.lifecycle and o.id = m.id and o.round = m.round
                    and o.message_id = m.message_id)
            and not exists (
                select from rejected r where r.lifecycle = m.lifecycle and r.id = m.id and r.round = m.round
                    and r.message_id = m.message_id)
        order by m.ordinal;
end $$;

-- What a run that has no history goes on from; see perdure/recovering/record.py. Null: the entity is not open in that round.
create function perdure.record_of(lifecycle text, entity_id text, round int) returns jsonb
language plpgsql stable set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    return (select jsonb_build_object(
        'state', e.state, 'since', e.since, 'created_at', e.created_at, 'snapshot', e.snapshot, 'heard', e.heard, 'memory', e.memory,
        'expects', (
            select coalesce(max(m.ordinal), 0) from message m
            where m.lifecycle = e.lifecycle and m.id = e.id and m.round = e.round and m.ordinal > e.heard and m.kind <> 'dropped'
                and not exists (
                    select from rejected r where r.lifecycle = m.lifecycle and r.id = m.id and r.round = m.round
                        and r.message_id = m.message_id)),
        'again', (
            select coalesce(jsonb_object_agg(x.effect, x.again), '{}') from (
                select f.effect, max(substring(f.key from '~([0-9]+)$')::int) as again from effect f
                where f.lifecycle = e.lifecycle and f.id = e.id and f.round = e.round group by f.effect) x
            where x.again > 0),
        'doubts', (
            select coalesce(jsonb_agg(jsonb_build_object('key', f.key, 'view', perdure.effect_view(f.key))), '[]') from effect f
            where f.lifecycle = e.lifecycle and f.id = e.id and f.round = e.round and f.status in ('attempting', 'in_doubt')))
        from entity e where e.lifecycle = record_of.lifecycle and e.id = entity_id and e.round = record_of.round);
end $$;

-- An open entity wants a person, and says so: false, and nothing is changed, where it was written since `version`.
create function perdure.want_person(lifecycle text, entity_id text, round int, version bigint, attention text, made_by text)
returns boolean language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    i := perdure.hold_open(want_person.lifecycle, entity_id, want_person.round, want_person.version);
    if i.id is null then
        return false;
    end if;
    update entity e set attention = want_person.attention where e.lifecycle = i.lifecycle and e.id = i.id;
    perform perdure.note(i.lifecycle, i.id, want_person.made_by, want_person.attention);
    return true;
end $$;

revoke all on all functions in schema perdure from public;
