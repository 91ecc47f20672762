-- Which database this is (invariant 11): a copy of it, or one that was put back, sends nothing before somebody has said
-- what it is. A mark is exchanged with Temporal, since base backups differ from their original in nothing else.

create table perdure.database (
    one                boolean     primary key default true check (one),
    mark               text,        -- null = not bound yet: nothing is checked, as in tests without Temporal
    epoch              bigint      not null default 0, -- when the newest began, in microseconds; an older one may have lost records
    system_identifier  bigint,
    database_oid       oid,
    timeline           int,
    postmaster_started timestamptz,
    namespace          text,
    namespace_id       text,
    scope              text,        -- '' = none
    exchanged_at       timestamptz,
    stopped            text         -- why nothing may be sent from here
);

insert into perdure.database default values;

create function perdure.epoch() returns bigint
language plpgsql stable as $$
begin
    return (select epoch from perdure.database);
end $$;

-- The epoch in which it was started.
alter table perdure.entity add column epoch bigint not null default 0;
alter table perdure.entity alter column epoch set default perdure.epoch();

-- The server that runs, as it is now.
create function perdure.incarnation(out system_identifier bigint, out database_oid oid, out timeline int, out postmaster_started timestamptz)
language plpgsql stable as $$
begin
    system_identifier := (select c.system_identifier from pg_control_system() c);
    database_oid := (select oid from pg_database where datname = current_database());
    postmaster_started := pg_postmaster_start_time();
    if not pg_is_in_recovery() then
        -- `pg_control_checkpoint` would say it only after the next checkpoint.
        timeline := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int;
    end if;
end $$;

-- Before anything is sent: is this the database that was asked for last? Null = yes, else why not. A server of the same
-- start has the same timeline and system identifier, so these are not asked for each time.
create function perdure.database_trouble() returns text
language plpgsql stable as $$
declare
    d perdure.database;
    i record;
begin
    select * into d from perdure.database;
    if d.stopped is not null then
        return d.stopped;
    end if;
    if d.mark is null or (d.postmaster_started = pg_postmaster_start_time()
            and d.database_oid = (select oid from pg_database where datname = current_database())) then
        return null;
    end if;
    i := perdure.incarnation();
    if i.system_identifier is distinct from d.system_identifier or i.database_oid is distinct from d.database_oid then
        return format('this database (system %s, oid %s) is a copy of the one that works with scope %L in namespace %L (system %s, oid %s)',
            i.system_identifier, i.database_oid, d.scope, d.namespace, d.system_identifier, d.database_oid);
    end if;
    return 'not verified';
end $$;

-- Class 57, as for a server that starts up: also to a worker of the release before it means no answer, so no call.
create function perdure.check_database() returns boolean
language plpgsql stable as $$
declare
    trouble text := perdure.database_trouble();
begin
    if trouble is null then
        return true;
    elsif trouble = 'not verified' then
        raise exception 'perdure: this database was not verified with Temporal since PostgreSQL was started'
            using hint = 'A worker does that within a second, once it reaches Temporal.', errcode = '57PE2';
    end if;
    raise exception 'perdure: nothing is sent from here: %', trouble
        using hint = 'Say what this database is: perdure adopt-database --as copied|restored|moved', errcode = '57PE1';
end $$;

-- A batch, in the order given, all or none but for the entities that somebody else holds.
create or replace function perdure.apply_writes(batch jsonb) returns setof jsonb
language plpgsql as $$
declare
    w jsonb;
begin
    perform perdure.check_database();
    for w in select value from jsonb_array_elements(batch) loop
        return next perdure.apply_write(w);
    end loop;
end $$;

-- Where no record does not mean never touched, since it was ordered before the newest epoch, or by a run that may repeat
-- one from before it: puts it on record as in doubt. The caller has seen that there is no record.
create function perdure.doubt_lost_record(w jsonb) returns boolean
language plpgsql as $$
declare
    f jsonb := w->'fence';
    now_epoch bigint := perdure.epoch();
    since bigint := (f->>'since')::bigint;
    began bigint := (f->>'began')::bigint;
    x perdure.entity;
    now_at timestamptz := clock_timestamp();
begin
    if now_epoch = 0 or since is null then
        return false;
    end if;
    select * into x from perdure.entity where lifecycle = w->>'lifecycle' and id = w->>'id';
    if since >= now_epoch and not (coalesce(x.epoch, now_epoch) < now_epoch and began >= now_epoch) then
        return false;
    end if;
    insert into perdure.effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline, why)
        values (f->>'key', w->>'lifecycle', w->>'id', (w->>'round')::int, f->>'effect', gen_random_uuid()::text, 'in_doubt', '',
            least(to_timestamp(since / 1e6), case when began >= now_epoch then x.created_at end, now_at), now_at,
            now_at + make_interval(secs => coalesce((f->>'in_flight')::float, 0)),
            'no record of it, and the database was restored, or another server took over, at '
                || to_char(to_timestamp(now_epoch / 1e6) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'));
    return true;
end $$;

-- Puts an attempt on record, or says what stands. A digest of '' = nobody knows what that attempt was given. The caller
-- holds the row of `ident`, so nobody races us here.
create or replace function perdure.begin_attempt(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    now_at timestamptz := clock_timestamp();
    ends timestamptz := now_at + make_interval(secs => (f->>'in_flight')::float);
begin
    select * into old from perdure.effect where key = f->>'key';
    if not found then
        if perdure.doubt_lost_record(w) then
            return 'standing';
        end if;
        insert into perdure.effect (key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline)
            values (f->>'key', w->>'lifecycle', w->>'id', (w->>'round')::int, f->>'effect', f->>'token', 'attempting',
                f->>'digest', now_at, now_at, ends);
        return 'fresh';
    end if;
    if old.status in ('done', 'refused', 'abandoned') then
        return 'standing';
    elsif old.digest not in ('', f->>'digest') then
        return 'different';
    elsif old.status = 'not_done' or old.token = f->>'after' then
        update perdure.effect set token = f->>'token', status = 'attempting', attempts = attempts + 1,
            digest = f->>'digest', attempt_at = now_at, deadline = ends, why = null where key = old.key;
        return 'fresh';
    end if;
    return 'standing';
end $$;

create or replace function perdure.work_fence(w jsonb) returns text
language plpgsql as $$
declare
    f jsonb := w->'fence';
begin
    -- An outcome of before finds it, too, and is settled below as one that comes late.
    if perdure.epoch() > 0 and not exists (select from perdure.effect where key = f->>'key') then
        perform perdure.doubt_lost_record(w);
    end if;
    case f->>'op'
        when 'outcome', 'resolve' then
            return perdure.settle_attempt(w);
        when 'note' then
            update perdure.effect set clue = f->'clue' where key = f->>'key' and token = f->>'token';
            return case when found then 'stored' else 'standing' end;
        when 'lost' then
            update perdure.effect set status = 'in_doubt', why = f->>'why' where key = f->>'key' and status = 'attempting';
            return 'standing';
        else
            return 'standing';
    end case;
end $$;

revoke all on all functions in schema perdure from public;
