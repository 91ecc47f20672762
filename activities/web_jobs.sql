-- Jobs that are web pages: job types, jobs, families of jobs and callbacks. May be applied again and again.
-- An app needs USAGE on the schema and INSERT on `web_job.job`: `perdure job-type set-up --grant ROLE` gives both.
create schema if not exists web_job;

-- A job type: where its page is, and what to do when nobody knows whether the page did its work.
create table if not exists web_job.type (
    name text primary key check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    url text not null check (url ~ '^https?://[^/{}\s]+(/\S*)?$'), -- a template of RFC 6570; none in its origin
    method text not null default 'POST' check (method in ('POST', 'GET', 'PUT', 'PATCH', 'DELETE')),
    headers jsonb not null default '{}' check (jsonb_typeof(headers) = 'object'),
    timeout interval not null default '30 s' check (timeout between interval '100 ms' and interval '1 hour'), -- of one call
    within interval not null default '1 day' check (within > interval '0'), -- once the page says that it is at work
    doubt text not null default 'escalate' check (doubt in ('dedupe', 'lookup', 'repeat', 'escalate')),
    remembers interval check (remembers > timeout + interval '1 min'), -- for how long it knows a key
    status_url text check (status_url ~ '^https?://[^/{}\s]+(/\S*)?$'), -- where to ask; {key} and {token} beside params
    settle interval not null default '30 s' check (settle >= interval '0'),
    otherwise text not null default 'escalate' check (otherwise in ('escalate', 'repeat')),
    not_done int[] not null default '{}' check (500 <= all (not_done) and 599 >= all (not_done)), -- 5xx that did nothing
    tries int check (tries > 0),
    at_once int not null default 50 check (at_once > 0), -- calls that one worker makes at a time
    signed_with text check (signed_with ~ '^((env:[A-Za-z_][A-Za-z0-9_]*|file:/\S+)( |$))+$'), -- where the secret is, never what
    callback boolean not null default false,
    disabled text check (disabled <> ''), -- why
    changed_at timestamptz not null default clock_timestamp(),
    constraint dedupe_has_a_window check (doubt <> 'dedupe' or remembers is not null),
    constraint lookup_has_an_address check (doubt <> 'lookup' or status_url is not null)
);

-- A job. Inserted, it is started, in the same transaction; `state` follows it.
create table if not exists web_job.job (
    id text primary key,
    type text not null check (type ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    params jsonb not null default '{}' check (jsonb_typeof(params) = 'object'),
    payload jsonb,
    state text not null default 'scheduled'
        check (state in ('listed', 'scheduled', 'held', 'processing', 'complete', 'failed', 'cancelled')),
    parent text, -- its master; then its id is `<parent>/...`
    told_to_end boolean not null default false,
    place bigint generated always as identity,
    inserted_at timestamptz not null default clock_timestamp()
);
create index if not exists job_scheduled on web_job.job (id) where state = 'scheduled';
create index if not exists job_held on web_job.job (type, id) where state = 'held';
create index if not exists job_waiting on web_job.job (parent, place) where state = 'listed';
create index if not exists job_of_family on web_job.job (parent, state) where parent is not null;

-- How far the children of a master are: one row, changed with the state of each child, in the same transaction.
create table if not exists web_job.family (
    master text primary key,
    window_size int not null check (window_size between 1 and 10000),
    tolerates int check (tolerates >= 0), -- how many may fail; null = any number
    next_page text,
    page int not null default 0, -- how many pages were listed
    listed bigint not null default 0,
    waiting bigint not null default 0,
    open bigint not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    cancelled bigint not null default 0,
    woken boolean not null default false, -- a word to the master is on its way: one at a time
    ending boolean not null default false -- a cancel is being handed on: nothing more is started
) with (fillfactor = 50);

-- Whom a page may call back about: the token itself is known to the page alone.
create table if not exists web_job.callback (
    digest bytea primary key check (octet_length(digest) = 32), -- SHA-256 of the token
    job text not null,
    made_at timestamptz not null default clock_timestamp(),
    called_at timestamptz,
    said jsonb
);
create index if not exists callback_of_job on web_job.callback (job);

-- The input of a job's lifecycle.
create or replace function web_job.input(j web_job.job) returns jsonb language sql immutable as $$
    select jsonb_build_object('type', j.type, 'params', j.params, 'payload', j.payload)
$$;

-- Starts the lifecycle of a job that an app inserts.
create or replace function web_job.begin_job() returns trigger
language plpgsql security definer set search_path = web_job, pg_temp as $$
begin
    if not exists (select from web_job.type t where t.name = new.type) then
        raise exception 'web_job.job: there is no job type %', quote_literal(left(new.type, 80))
            using hint = 'Add it first: perdure job-type add.', errcode = 'foreign_key_violation';
    end if;
    if perdure.start('web-job', new.id, web_job.input(new), 'scheduled') <> 'started' then
        raise exception 'web_job.job: the id % was used before', quote_literal(left(new.id, 80))
            using hint = 'Give each job an id of its own, such as the type and the key of your row.', errcode = 'unique_violation';
    end if;
    return null;
end $$;

create or replace trigger begins after insert on web_job.job
    for each row when (new.state = 'scheduled') execute function web_job.begin_job();

-- Which of a family's counts a state belongs to.
create or replace function web_job.part(state text) returns text language sql immutable as $$
    select case state when 'listed' then 'waiting' when 'complete' then 'done' when 'failed' then 'failed'
        when 'cancelled' then 'cancelled' else 'open' end
$$;

-- Counts, once for each statement; and wakes the masters that have something to do, with one word for many children.
create or replace function web_job.count_children() returns trigger
language plpgsql security definer set search_path = web_job, pg_temp as $$
declare
    moved text[];
    one record;
begin
    if tg_op = 'INSERT' then
        update web_job.family f set listed = f.listed + d.number, waiting = f.waiting + d.number
            from (select parent, count(*) number from added where parent is not null and state = 'listed' group by parent) d
            where f.master = d.parent;
        return null;
    end if;
    with d as (
        select parent, sum(sign) filter (where part = 'waiting') waiting, sum(sign) filter (where part = 'open') open,
            sum(sign) filter (where part = 'done') done, sum(sign) filter (where part = 'failed') failed,
            sum(sign) filter (where part = 'cancelled') cancelled
        from (
            select parent, part(state) part, 1 sign from after where parent is not null
            union all select parent, part(state), -1 from before where parent is not null) x
        group by parent
    ), counted as (
        update web_job.family f set waiting = f.waiting + coalesce(d.waiting, 0), open = f.open + coalesce(d.open, 0),
            done = f.done + coalesce(d.done, 0), failed = f.failed + coalesce(d.failed, 0),
            cancelled = f.cancelled + coalesce(d.cancelled, 0)
        from d where f.master = d.parent
            and (d.waiting <> 0 or d.open <> 0 or d.done <> 0 or d.failed <> 0 or d.cancelled <> 0)
        returning f.master, d.open
    )
    select array_agg(master) filter (where open < 0) into moved from counted;
    if moved is null then
        return null;
    end if;
    for one in
        update web_job.family f set woken = true
        where f.master = any (moved) and not f.woken and not f.ending
            and (f.open = 0 or f.failed + f.cancelled > f.tolerates
                or f.open <= f.window_size / 2 and (f.waiting > 0 or f.next_page is not null))
            and exists (select from perdure.ident i where i.lifecycle = 'web-job' and i.id = f.master and i.final is null)
        returning f.master
    loop
        perform perdure.signal('web-job', one.master, 'children_moved');
    end loop;
    return null;
end $$;

create or replace trigger listed after insert on web_job.job
    referencing new table as added for each statement execute function web_job.count_children();
create or replace trigger moved after update on web_job.job
    referencing old table as before new table as after for each statement execute function web_job.count_children();

-- A family as its master is told of it.
create or replace function web_job.told(f web_job.family) returns jsonb language sql stable as $$
    select jsonb_build_object('window', f.window_size, 'tolerates', f.tolerates, 'next_page', f.next_page, 'page', f.page,
        'listed', f.listed, 'waiting', f.waiting, 'open', f.open, 'done', f.done, 'failed', f.failed, 'cancelled', f.cancelled)
$$;

-- Puts one page of a master's children on record, once: page 0 is the answer to its call.
create or replace function web_job.list_children(master text, page int, children jsonb, next_page text,
    window_size int default 50, tolerates int default 0) returns jsonb
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    f family;
begin
    insert into family (master, window_size, tolerates)
        values (list_children.master, list_children.window_size, list_children.tolerates) on conflict do nothing;
    select * into f from family x where x.master = list_children.master for update;
    if f.page = list_children.page then
        insert into job (id, type, params, payload, state, parent)
            select list_children.master || '/' || (c->>'id'), c->>'type', coalesce(c->'params', '{}'), c->'payload', 'listed',
                list_children.master
            from jsonb_array_elements(children) with ordinality x(c, n) order by n
            on conflict (id) do nothing;
        update family x set page = x.page + 1, next_page = list_children.next_page where x.master = list_children.master;
        select * into f from family x where x.master = list_children.master;
    end if;
    return told(f);
end $$;

-- Starts children that wait, as many as there is room for; those that failed before as a new round.
create or replace function web_job.start_children(master text, most bigint) returns void
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    chosen text[];
    again text;
begin
    select array_agg(id) into chosen from (
        select id from job j where j.parent = start_children.master and j.state = 'listed' order by place limit most) x;
    update job j set state = 'scheduled' where j.id = any (chosen);
    for again in
        select id from (
            select j.id, perdure.start('web-job', j.id, input(j), 'scheduled') answer from job j where j.id = any (chosen)) x
        where answer = 'finished'
    loop
        begin
            perform perdure.restart('web-job', again, 'web-job', 'again with its master', 'scheduled');
        exception when object_not_in_prerequisite_state or no_data_found then
            update job j set state = 'failed' where j.id = again; -- whether it happened is not known, or its record is gone
        end;
    end loop;
end $$;

-- One look at a family: what is open is filled up to its window. Null where there is none.
create or replace function web_job.advance(master text) returns jsonb
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    f family;
begin
    update family x set woken = false where x.master = advance.master returning * into f;
    if not found then
        return null;
    end if;
    if f.waiting > 0 and f.open < f.window_size and not f.ending and (f.failed + f.cancelled > f.tolerates) is not true then
        perform start_children(f.master, least(f.window_size - f.open, f.waiting));
        select * into f from family x where x.master = advance.master;
    end if;
    return told(f);
end $$;

-- Gives a page of the children that failed or were cancelled back to those that wait. How many are left.
create or replace function web_job.run_again(master text, most int default 1000) returns bigint
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
begin
    update family x set ending = false, woken = false where x.master = run_again.master;
    update job j set state = 'listed', told_to_end = false where j.id in (
        select id from job x where x.parent = run_again.master and x.state in ('failed', 'cancelled') limit most);
    return coalesce((select failed + cancelled from family x where x.master = run_again.master), 0);
end $$;

-- Hands a cancel on to a page of the children: what waits is not started, what is open is told. How many are left.
create or replace function web_job.cancel_children(master text, made_by text, note text, most int default 500) returns bigint
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    told text[];
begin
    update family x set ending = true where x.master = cancel_children.master;
    if not found then
        return 0;
    end if;
    update job j set state = 'cancelled' where j.id in (
        select id from job x where x.parent = cancel_children.master and x.state = 'listed' limit most);
    select array_agg(id) into told from (
        select id from job x where x.parent = cancel_children.master
            and x.state in ('scheduled', 'held', 'processing') and not x.told_to_end limit most) x;
    perform perdure.cancel('web-job', each, made_by, note) from unnest(told) each;
    update job j set told_to_end = true where j.id = any (told);
    return (select count(*) from job x where x.parent = cancel_children.master and (x.state = 'listed'
        or x.state in ('scheduled', 'held', 'processing') and not x.told_to_end));
end $$;

-- Why a job of this type can't be called now; null if it can.
create or replace function web_job.held(type text) returns text
language sql stable set search_path = web_job, pg_temp as $$
    select case when t.name is null then 'there is no job type ' || quote_literal(held.type) || ': perdure job-type add'
        when t.disabled is not null then 'the job type ' || t.name || ' is disabled: ' || t.disabled end
    from (select 1) x left join type t on t.name = held.type
$$;

-- Tells a page of the jobs that a type held that it holds them no longer. How many were told.
create or replace function web_job.let_go(type text, after text default '', most int default 1000,
    out told bigint, out last text)
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
begin
    select count(*), max(id) into told, last from (
        select id, perdure.signal('web-job', id, 'type_changed') from (
            select id from job j where j.type = let_go.type and j.state = 'held' and j.id > let_go.after
            order by j.id limit most) x) y;
end $$;

-- What a page says by its callback: once for each token. 'heard', 'used' (it was said before), 'over' (the job has ended)
-- or 'unknown'.
create or replace function web_job.called_back(token text, ok boolean default true, body jsonb default null, why text default null)
returns text language plpgsql security definer set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    c callback;
    heard jsonb := jsonb_build_object('ok', coalesce(ok, true), 'body', body, 'why', left(why, 500));
begin
    if octet_length(heard::text) > 65536 then
        raise exception 'web_job.called_back: the body has % bytes', octet_length(heard::text)
            using hint = 'At most 64 kB: keep it in a table or a file, and say where.', errcode = 'invalid_parameter_value';
    end if;
    select * into c from callback x where x.digest = sha256(convert_to(coalesce(token, ''), 'UTF8')) for update;
    if not found then
        return 'unknown';
    elsif c.called_at is not null then
        return 'used';
    end if;
    update callback x set called_at = clock_timestamp(), said = heard where x.digest = c.digest;
    return case perdure.signal('web-job', c.job, 'called_back', heard, 'callback ' || encode(c.digest, 'hex'))
        when 'finished' then 'over' else 'heard' end;
end $$;

-- What became of each job, and what its page answered last.
create or replace view web_job.result as
    select j.id, j.type, j.state, j.parent, coalesce(
        (select c.said->'body' from web_job.callback c where c.job = j.id and c.called_at is not null limit 1),
        (select e.receipt->'body' from perdure.effect e where e.lifecycle = 'web-job' and e.id = j.id and e.status = 'done'
            and e.effect in ('follow-page', 'call-page', 'call-page-inline') order by e.effect = 'follow-page' desc, e.round desc
            limit 1)) as body
    from web_job.job j;

revoke all on all functions in schema web_job from public;
revoke all on all tables in schema web_job from public;
revoke all on schema web_job from public;
