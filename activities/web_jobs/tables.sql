-- Jobs that are web pages: job types, jobs, families of jobs and callbacks. May be applied again and again.
-- An app needs USAGE on the schema and INSERT on `web_job.job`: `perdure job-type set-up --grant ROLE` gives both.
create schema if not exists web_job;

-- Headers that perdure does not set itself, as texts that can stand in a request (RFC 9110, 5.5 and 5.6.2).
create or replace function web_job.headers_fit(headers jsonb) returns boolean
language sql immutable set search_path = web_job, pg_temp as $$
    select jsonb_typeof(headers) = 'object'
        and not headers @? '$.keyvalue() ? (@.value.type() != "string")'
        and not headers @? E'$.keyvalue() ? (@.value like_regex "[^\\\\t -~]")'
        and not headers @? '$.keyvalue() ? (!(@.key like_regex "^[!#$%&''*+.^_`|~0-9A-Za-z-]+$"))'
        and not headers @? '$.keyvalue() ? (@.key like_regex "^(host|connection|content-length|transfer-encoding|te|trailer|upgrade|expect|accept-encoding|idempotency-key|traceparent|content-digest|signature|signature-input|(perdure|proxy)-.*)$" flag "i")'
$$;

-- A URL that can be called: a template of RFC 6570, with none in its origin, no {+name}, no user and no fragment.
create or replace function web_job.url_fits(url text) returns boolean
language sql immutable set search_path = web_job, pg_temp as $$
    select url ~ E'^https?://(\\[[0-9a-fA-F:.]+\\]|[^][/?#{}@\\\\:]+)(:\\d{1,5})?([/?]([^{}#]|\\{[./;?&]?[A-Za-z0-9_.,:*%]+\\})*)?$'
        and url !~ '[^!-~]' and octet_length(url) <= 4000
$$;

-- A job type: the address of its page, and the doubt policy of its calls. The name of a broken
-- constraint names what is wrong. After a change that releases held jobs: select * from web_job.release('name').
create table if not exists web_job.type (
    name text primary key constraint name_is_of_lower_case_digits_dots_and_dashes check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    url text not null constraint url_is_http_without_user_fragment_or_template_in_its_origin check (web_job.url_fits(url)),
    method text not null default 'POST'
        constraint method_is_post_get_put_patch_or_delete check (method in ('POST', 'GET', 'PUT', 'PATCH', 'DELETE')),
    headers jsonb not null default '{}' constraint headers_are_texts_by_name_and_none_of_ours check (web_job.headers_fit(headers)),
    timeout interval not null default '30 s' -- of one call
        constraint timeout_is_100_ms_to_1_hour check (timeout between interval '100 ms' and interval '1 hour'),
    within interval not null default '1 day' -- once the page has answered that it is at work
        constraint within_is_1_second_to_10_years check (within between interval '1 s' and interval '10 years'),
    doubt text not null default 'escalate'
        constraint doubt_is_dedupe_lookup_repeat_or_escalate check (doubt in ('dedupe', 'lookup', 'repeat', 'escalate')),
    remembers interval, -- for how long the page recognises a key
    status_url text -- where to ask; {key} and {token} beside params
        constraint status_url_is_http_without_user_fragment_or_template_in_origin check (web_job.url_fits(status_url)),
    visibility_delay interval not null default '30 s' constraint visibility_delay_is_0_to_1_day check (visibility_delay between interval '0' and interval '1 day'),
    otherwise text not null default 'escalate'
        constraint otherwise_is_escalate_or_repeat check (otherwise in ('escalate', 'repeat')),
    not_done int[] not null default '{}' -- 5xx that did nothing
        constraint not_done_holds_statuses_500_to_599 check (array_position(not_done, null) is null
            and 500 <= all (not_done) and 599 >= all (not_done)),
    tries int constraint tries_is_positive check (tries > 0),
    at_once int not null default 50 -- calls that one worker makes at a time
        constraint at_once_is_positive check (at_once > 0),
    signed_with text -- where the secret is, never what
        constraint signed_with_is_env_name_or_file_path check (signed_with ~ E'^(env:[A-Za-z_][A-Za-z0-9_]*|file:/\\S+)( (env:[A-Za-z_][A-Za-z0-9_]*|file:/\\S+))*$'),
    callback boolean not null default false,
    disabled text constraint disabled_says_why_in_1_to_500_characters check (length(disabled) between 1 and 500),
    changed_at timestamptz not null default clock_timestamp(),
    constraint remembers_is_over_timeout_and_a_minute
        check (remembers > timeout + interval '1 min' and remembers <= interval '10 years'),
    constraint dedupe_has_remembers check (doubt <> 'dedupe' or remembers is not null),
    constraint lookup_has_status_url check (doubt <> 'lookup' or status_url is not null)
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
    cancel_requested boolean not null default false,
    place bigint generated always as identity,
    inserted_at timestamptz not null default clock_timestamp()
);
create index if not exists job_scheduled on web_job.job (id) where state = 'scheduled';
create index if not exists job_open on web_job.job (type, state, id) where state in ('scheduled', 'held', 'processing');
create index if not exists job_failed on web_job.job (type) where state = 'failed';
create index if not exists job_waiting on web_job.job (parent, place) where state = 'listed';
create index if not exists job_of_master on web_job.job (parent, state, id) where parent is not null;
drop index if exists web_job.job_of_family; -- its successor has the order of ids

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

-- What is sent to a status URL of another origin than the page's, which gets neither `headers` nor `signed_with`.
alter table web_job.type add column if not exists status_headers jsonb not null default '{}'
    constraint status_headers_are_texts_by_name_and_none_of_ours check (web_job.headers_fit(status_headers));
alter table web_job.type add column if not exists status_signed_with text -- where the secret is, never what
    constraint status_signed_with_is_env_name_or_file_path check (
        status_signed_with ~ E'^(env:[A-Za-z_][A-Za-z0-9_]*|file:/\\S+)( (env:[A-Za-z_][A-Za-z0-9_]*|file:/\\S+))*$');

-- Which types its page may list as children, and how many levels of jobs may stand below the job that an app inserts.
alter table web_job.type add column if not exists children text[] not null default '{}'
    constraint children_are_names_of_types check (array_position(children, null) is null
        and not to_jsonb(children) @? '$[*] ? (!(@ like_regex "^[a-z0-9][a-z0-9._-]{0,62}$"))');
alter table web_job.type add column if not exists max_depth int not null default 3
    constraint max_depth_is_1_to_100 check (max_depth between 1 and 100);

alter table web_job.job add column if not exists why text; -- its master could not start it again

alter table web_job.family add column if not exists refused bigint not null default 0; -- rows of web_job.refused_child

-- Children that a page lists and that can't become jobs. They are counted as listed, and as failed in the end; meanwhile
-- their siblings go on. Who mends it calls web_job.list_child.
create table if not exists web_job.refused_child (
    master text not null,
    id text not null, -- as the page has it
    page int not null, -- on which it stands; 0 = the answer to the call
    child jsonb not null, -- as the page lists it
    why text not null,
    refused_at timestamptz not null default clock_timestamp(),
    primary key (master, id)
);

-- Who changed which job type, also by SQL. `made_by` is the name that the console gave, `session_role` the role that PostgreSQL authenticated.
create table if not exists web_job.type_change (
    seq bigint generated always as identity primary key,
    type text not null,
    what text not null check (what in ('added', 'changed', 'disabled', 'enabled', 'deleted', 'tested')),
    fields text[] not null default '{}', -- which were changed; their values may be confidential
    note text,
    made_by text,
    session_role text not null default session_user,
    at timestamptz not null default clock_timestamp()
);
create index if not exists type_change_of_type on web_job.type_change (type, seq);

-- Whom a page may call back about: the token itself is known to the page alone.
create table if not exists web_job.callback (
    digest bytea primary key check (octet_length(digest) = 32), -- SHA-256 of the token
    job text not null,
    generation int not null default 0, -- of the job: a token of an earlier generation does not count for this one
    made_at timestamptz not null default clock_timestamp(),
    called_at timestamptz,
    report jsonb -- {ok, body, why}, as the page sent it
);
create index if not exists callback_of_job on web_job.callback (job);

-- The input of a job's lifecycle.
create or replace function web_job.input(j web_job.job) returns jsonb
language sql immutable set search_path = web_job, pg_temp as $$
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
    if perdure.start('web-job', new.id, web_job.input(new)) <> 'started' then
        raise exception 'web_job.job: the id % was used before', quote_literal(left(new.id, 80))
            using hint = 'Give each job an id of its own, such as the type and the key of your row.', errcode = 'unique_violation';
    end if;
    return null;
end $$;

create or replace trigger begins after insert on web_job.job
    for each row when (new.state = 'scheduled') execute function web_job.begin_job();

-- A job that goes on, by its master or by itself, has no reason any more why it could not.
create or replace function web_job.clear_why() returns trigger
language plpgsql set search_path = web_job, pg_temp as $$
begin
    new.why := null;
    return new;
end $$;

create or replace trigger goes_on before update of state on web_job.job
    for each row when (old.why is not null and new.why = old.why) execute function web_job.clear_why();

-- Which of a family's counts a state belongs to.
create or replace function web_job.part(state text) returns text
language sql immutable set search_path = web_job, pg_temp as $$
    select case state when 'listed' then 'waiting' when 'complete' then 'done' when 'failed' then 'failed'
        when 'cancelled' then 'cancelled' else 'open' end
$$;

-- Whether a master has something to do for its family.
create or replace function web_job.has_room(f web_job.family) returns boolean
language sql immutable set search_path = web_job, pg_temp as $$
    select f.open <= f.window_size / 2 and (f.waiting > 0 or f.next_page is not null) and not f.ending
        and (f.failed + f.cancelled > f.tolerates) is not true
$$;

-- What its statements move in families is kept by a transaction, and counted at its end. So the row of a family, which all
-- need who finish a child of it, is held for the moment of a commit, and several such rows are taken in one order.
create or replace function web_job.keep_moves() returns trigger
language plpgsql security definer set search_path = web_job, pg_temp as $$
declare
    moves text;
begin
    select string_agg(jsonb_build_array(parent, part, number)::text, ',') into moves from (
        select parent, part(state) part, sum(sign) number from (
            select parent, state, 1 sign from after where parent is not null
            union all select parent, state, -1 from before where parent is not null) x
        group by 1, 2) y where number <> 0;
    if moves is not null then
        perform set_config('web_job.moves', concat_ws(',', nullif(current_setting('web_job.moves', true), ''), moves), true);
    end if;
    return null;
end $$;

-- Counts what the transaction has moved, and wakes masters that have something to do: with one word for many children.
create or replace function web_job.count_moves() returns void
language plpgsql security definer set search_path = web_job, pg_temp as $$
declare
    moves text := current_setting('web_job.moves', true);
    d record;
    f family;
begin
    if coalesce(moves, '') = '' then
        return;
    end if;
    perform set_config('web_job.moves', '', true);
    for d in
        select m->>0 as master, coalesce(sum(n) filter (where part = 'waiting'), 0) waiting,
            coalesce(sum(n) filter (where part = 'open'), 0) open, coalesce(sum(n) filter (where part = 'done'), 0) done,
            coalesce(sum(n) filter (where part = 'failed'), 0) failed,
            coalesce(sum(n) filter (where part = 'cancelled'), 0) cancelled
        from jsonb_array_elements(('[' || moves || ']')::jsonb) m, lateral (select m->>1 as part, (m->>2)::bigint n) y
        group by 1 order by 1
    loop
        update family x set waiting = x.waiting + d.waiting, open = x.open + d.open, done = x.done + d.done,
            failed = x.failed + d.failed, cancelled = x.cancelled + d.cancelled,
            listed = x.listed + d.waiting + d.open + d.done + d.failed + d.cancelled
            where x.master = d.master returning * into f;
        if found and d.open < 0 and not f.woken and not f.ending and (f.open = 0 or has_room(f)) then
            perform wake_master(f.master);
        end if;
    end loop;
end $$;

-- Notifies a master that its children have moved. The master confirms that by `advance`.
create or replace function web_job.wake_master(master text) returns void
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
begin
    if exists (select from perdure.ident i where i.lifecycle = 'web-job' and i.id = wake_master.master and i.final is null) then
        update family x set woken = true where x.master = wake_master.master;
        perform perdure.signal('web-job', wake_master.master, 'children_moved');
    end if;
end $$;

create or replace function web_job.count_at_the_end() returns trigger
language plpgsql security definer set search_path = web_job, pg_temp as $$
begin
    perform count_moves();
    return null;
end $$;

-- Jobs that come, or are deleted, are counted at once. A deleted child that has ended stays counted as it ended, else its master
-- would forget that it failed; its row may not show its end yet.
create or replace function web_job.count_others() returns trigger
language plpgsql security definer set search_path = web_job, pg_temp as $$
declare
    moves text;
begin
    if tg_op = 'INSERT' then
        select string_agg(jsonb_build_array(parent, part, number)::text, ',') into moves from (
            select parent, part(state) part, count(*) number from changed where parent is not null group by 1, 2) x;
    else
        select string_agg(jsonb_build_array(parent, part, number)::text, ',') into moves from (
            select parent, part, sum(sign) number from (
                select parent, part(state) part, -1 sign from changed where part(state) in ('waiting', 'open')
                union all select c.parent, part(i.final), 1 from changed c
                    join perdure.ident i on i.lifecycle = 'web-job' and i.id = c.id
                    where part(c.state) = 'open' and i.final is not null) y
            where parent is not null group by 1, 2) x;
    end if;
    if moves is not null then
        perform set_config('web_job.moves', concat_ws(',', nullif(current_setting('web_job.moves', true), ''), moves), true);
        perform count_moves();
    end if;
    return null;
end $$;

create or replace trigger listed after insert on web_job.job
    referencing new table as changed for each statement execute function web_job.count_others();
create or replace trigger deleted after delete on web_job.job
    referencing old table as changed for each statement execute function web_job.count_others();
create or replace trigger moved after update on web_job.job
    referencing old table as before new table as after for each statement execute function web_job.keep_moves();
drop trigger if exists counted on web_job.job;
create constraint trigger counted after update on web_job.job deferrable initially deferred
    for each row when (new.parent is not null and old.state <> new.state) execute function web_job.count_at_the_end();

-- A family, as the activities of its master read it.
create or replace function web_job.summary(f web_job.family) returns jsonb
language sql stable set search_path = web_job, pg_temp as $$
    select jsonb_build_object('window', f.window_size, 'tolerates', f.tolerates, 'next_page', f.next_page, 'page', f.page,
        'listed', f.listed, 'waiting', f.waiting, 'open', f.open, 'done', f.done, 'failed', f.failed, 'cancelled', f.cancelled)
        || case when f.refused = 0 then '{}' else jsonb_build_object('refused', f.refused, 'first_refused', (
            select quote_literal(r.id) || ': ' || r.why from refused_child r where r.master = f.master order by page, id limit 1)) end
$$;

-- Lets one transaction at a time work on a family, without keeping those who count from its row. It locks the row of the
-- master, which needs a right on the table; everybody can hold an advisory lock.
create or replace function web_job.alone(master text) returns void
language plpgsql set search_path = web_job, pg_temp as $$
begin
    perform from job j where j.id = alone.master for no key update;
end $$;

-- Why a child can't become a job with this id; null if it can.
create or replace function web_job.flaw_of_child(master text, job_id text, input jsonb) returns text
language plpgsql set search_path = web_job, pg_temp as $$
declare
    other job;
begin
    select * into other from job j where j.id = job_id;
    if found then
        return format('its id is taken by a job of type %L, which is %s and %s', other.type, other.state,
            case when other.parent is null then format('no child of %L', master) else format('a child of %L', other.parent) end);
    end if;
    if exists (select from perdure.ident i where i.lifecycle = 'web-job' and i.id = job_id) then
        return 'its id was used before, by a job whose row is gone';
    end if;
    perform perdure.check_entity('start', 'web-job', job_id);
    perform perdure.check_payload('start', input);
    return null;
exception when invalid_parameter_value or program_limit_exceeded then
    return sqlerrm;
end $$;

-- How many jobs stand above a job: 0 where an app inserted it.
create or replace function web_job.depth(job text) returns int
language sql stable set search_path = web_job, pg_temp as $$
    with recursive above as (
        select j.parent, 0 as level from job j where j.id = $1
        union all select j.parent, level + 1 from above join job j on j.id = above.parent where level < 1000)
    select coalesce(max(level), 0) from above
$$;

-- Why the page of a master may not list a child of this type; null if it may.
create or replace function web_job.barred(master text, child_type text) returns text
language plpgsql stable set search_path = web_job, pg_temp as $$
#variable_conflict use_variable
declare
    t type;
begin
    select x.* into t from job j join type x on x.name = j.type where j.id = master;
    if not found then
        return 'the job type of its master is gone';
    elsif child_type <> all (t.children) then
        return format('the job type %L does not name %L among its children', t.name, child_type);
    elsif depth(master) >= t.max_depth then
        return format('the job type %L allows %s level(s) of children, and its master stands on the last', t.name, t.max_depth);
    end if;
    return null;
end $$;

-- Makes jobs of the children that are given, in their order, and keeps a record of those that can't become jobs.
create or replace function web_job.add_children(master text, page int, children jsonb) returns void
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    lost int;
    not_allowed jsonb; -- why, by type
begin
    -- Materialized: else the condition is pushed below the distinct, and `barred` runs for each child.
    with named as materialized (select distinct c->>'type' as type from jsonb_array_elements(children) c),
        found as materialized (select named.type, barred(add_children.master, named.type) as why from named)
    select coalesce(jsonb_object_agg(found.type, why), '{}') into not_allowed from found where why is not null;
    insert into job (id, type, params, payload, state, parent)
        select add_children.master || '/' || (c->>'id'), c->>'type', coalesce(nullif(c->'params', 'null'), '{}'),
            nullif(c->'payload', 'null'), 'listed', add_children.master
        from jsonb_array_elements(children) with ordinality x(c, n)
        where not not_allowed ? (c->>'type')
            and flaw_of_child(add_children.master, add_children.master || '/' || (c->>'id'), c) is null order by n
        on conflict (id) do nothing;
    insert into refused_child (master, id, page, child, why)
        select add_children.master, c->>'id', add_children.page, c, why from jsonb_array_elements(children) c,
            lateral (select add_children.master || '/' || (c->>'id') as job_id) named,
            lateral (select coalesce(not_allowed->>(c->>'type'), flaw_of_child(add_children.master, job_id, c),
                'its id was taken meanwhile') as why) found
        where not exists (select from job j where j.id = job_id and j.parent = add_children.master)
        on conflict do nothing;
    get diagnostics lost = row_count;
    update family x set refused = x.refused + lost, listed = x.listed + lost where x.master = add_children.master and lost > 0;
end $$;

-- Puts one page of a master's children on record, once: page 0 is the answer to its call.
create or replace function web_job.list_children(master text, page int, children jsonb, next_page text,
    window_size int default 50, tolerates int default 0) returns jsonb
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    f family;
begin
    perform alone(list_children.master);
    insert into family (master, window_size, tolerates)
        values (list_children.master, list_children.window_size, list_children.tolerates) on conflict do nothing;
    select * into f from family x where x.master = list_children.master;
    if f.page = list_children.page then
        perform add_children(list_children.master, list_children.page, children);
        update family x set page = x.page + 1, next_page = list_children.next_page where x.master = list_children.master;
    end if;
    select * into f from family x where x.master = list_children.master;
    return summary(f);
end $$;

-- Lists a refused child once more, under the id that is given; null = it is given up. A master that has ended goes on with
-- it after `perdure restart`.
create or replace function web_job.list_child(master text, id text, new_id text) returns void
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    r refused_child;
    why text;
begin
    perform alone(list_child.master);
    delete from refused_child x where x.master = list_child.master and x.id = list_child.id returning * into r;
    if not found then
        raise exception 'web_job.list_child: % has no refused child %', quote_literal(list_child.master), quote_literal(list_child.id)
            using hint = 'See web_job.refused_child.', errcode = 'no_data_found';
    end if;
    update family x set refused = x.refused - 1, listed = x.listed - 1 where x.master = list_child.master;
    if new_id is not null then
        why := barred(r.master, r.child->>'type');
        if why is not null then
            raise exception 'web_job.list_child: %/% can not become a job: %', r.master, new_id, why
                using hint = 'Change children or max_depth of the job type first.', errcode = 'insufficient_privilege';
        end if;
        why := flaw_of_child(r.master, r.master || '/' || new_id, r.child);
        if why is not null then
            raise exception 'web_job.list_child: %/% can not become a job: %', r.master, new_id, why
                using hint = 'Give the child an id that no job has had.', errcode = 'unique_violation';
        end if;
        perform add_children(r.master, r.page, jsonb_build_array(r.child || jsonb_build_object('id', new_id)));
    end if;
    perform wake_master(r.master);
end $$;

-- Starts children that wait, as many as there is room for; those that failed before as a new generation. How many.
create or replace function web_job.start_children(master text, most bigint) returns int
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    chosen text[];
    again text;
begin
    chosen := array(
        select id from job j where j.parent = start_children.master and j.state = 'listed' order by place limit most
        for no key update skip locked);
    update job j set state = 'scheduled' where j.id = any (chosen);
    for again in
        select id from (
            select j.id, perdure.start('web-job', j.id, input(j)) answer from job j where j.id = any (chosen)) x
        where answer = 'finished'
    loop
        begin
            perform perdure.restart('web-job', again, 'web-job', 'again with its master');
        exception
            when no_data_found then -- its month was dropped; this row still has the input
                perform perdure.restart('web-job', j.id, 'web-job', 'again with its master', input(j)) from job j where j.id = again;
            when object_not_in_prerequisite_state then -- whether its call happened is not known
                update job j set state = 'failed', why = sqlerrm where j.id = again;
        end;
    end loop;
    return cardinality(chosen);
end $$;

-- One look at a family: what is open is filled up to its window, 500 at a time. Null where there is none.
create or replace function web_job.advance(master text) returns jsonb
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    f family;
    started int := 0;
begin
    perform alone(advance.master);
    select * into f from family x where x.master = advance.master;
    if not found then
        return null;
    end if;
    if f.cancelled > 0 and not f.ending then
        -- An earlier cancel of the master has reached them only now, and it has begun anew since.
        update job j set state = 'listed', cancel_requested = false
            where j.parent = advance.master and j.state = 'cancelled' and j.cancel_requested;
        perform count_moves();
        select * into f from family x where x.master = advance.master;
    end if;
    if f.waiting > 0 and f.open < f.window_size and not f.ending and (f.failed + f.cancelled > f.tolerates) is not true then
        started := start_children(f.master, least(f.window_size - f.open, 500));
    end if;
    perform count_moves();
    -- What moves from here on wakes it once more.
    update family x set woken = false where x.master = advance.master returning * into f;
    return summary(f) || jsonb_build_object('started', started);
end $$;

-- Gives a page of the children that failed or were cancelled back to those that wait. How many are left.
create or replace function web_job.run_again(master text, most int default 1000) returns bigint
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
begin
    perform alone(run_again.master);
    update job j set state = 'listed', cancel_requested = false where j.id = any (array(
        select id from job x where x.parent = run_again.master and x.state in ('failed', 'cancelled') limit most
        for no key update skip locked));
    perform count_moves();
    update family x set ending = false, woken = false where x.master = run_again.master; -- from here on nothing else counts
    if not exists (select from job x where x.parent = run_again.master and x.state in ('failed', 'cancelled')) then
        -- Those that are still counted were forgotten since: nobody can run them again.
        update family x set listed = x.listed - x.failed - x.cancelled, failed = 0, cancelled = 0 where x.master = run_again.master;
    end if;
    return coalesce((select failed + cancelled from family x where x.master = run_again.master), 0);
end $$;

-- Passes a cancel on to a page of the children: those that wait are not started, those that are open are asked to end. Returns
-- how many are left.
create or replace function web_job.cancel_children(master text, made_by text, note text, most int default 500) returns bigint
language plpgsql set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    open_children text[];
begin
    perform alone(cancel_children.master);
    if not exists (select from family x where x.master = cancel_children.master) then
        return 0;
    end if;
    update job j set state = 'cancelled' where j.id = any (array(
        select id from job x where x.parent = cancel_children.master and x.state = 'listed' limit most
        for no key update skip locked));
    -- A row that is being written now is left for the next page: who writes it needs the family's.
    open_children := array(
        select id from job x where x.parent = cancel_children.master
            and x.state in ('scheduled', 'held', 'processing') and not x.cancel_requested limit most
        for no key update skip locked);
    perform perdure.cancel('web-job', each, made_by, note) from unnest(open_children) each;
    update job j set cancel_requested = true where j.id = any (open_children);
    perform count_moves();
    update family x set ending = true where x.master = cancel_children.master and not x.ending;
    return (select count(*) from job x where x.parent = cancel_children.master and (x.state = 'listed'
        or x.state in ('scheduled', 'held', 'processing') and not x.cancel_requested));
end $$;

-- Why a job of this type can't be called now; null if it can.
create or replace function web_job.held(type text) returns text
language sql stable set search_path = web_job, pg_temp as $$
    select case when t.name is null then 'there is no job type ' || quote_literal(held.type) || ': perdure job-type add'
        when t.disabled is not null then 'the job type ' || t.name || ' is disabled: ' || t.disabled end
    from (select 1) x left join type t on t.name = held.type
$$;

-- Puts on record what a statement has done to job types.
create or replace function web_job.record_change() returns trigger
language plpgsql security definer set search_path = web_job, pg_temp as $$
declare
    changed text[];
begin
    if tg_op = 'UPDATE' then
        changed := array(select n.key from jsonb_each(to_jsonb(new)) n join jsonb_each(to_jsonb(old)) o on o.key = n.key
            where n.value is distinct from o.value and n.key <> 'changed_at' order by n.key);
        if changed = '{}' then
            return null;
        end if;
    end if;
    insert into type_change (type, what, fields, note, made_by)
        values (case tg_op when 'DELETE' then old.name else new.name end,
            case when tg_op = 'INSERT' then 'added' when tg_op = 'DELETE' then 'deleted'
                when changed <> '{disabled}' then 'changed' when new.disabled is null then 'enabled' else 'disabled' end,
            coalesce(changed, '{}'),
            coalesce(nullif(current_setting('web_job.note', true), ''), case when tg_op <> 'DELETE' then new.disabled end),
            nullif(current_setting('web_job.made_by', true), ''));
    return null;
end $$;

create or replace trigger recorded after insert or update or delete on web_job.type
    for each row execute function web_job.record_change();

-- What somebody does to a job type in the console: 'disable' (the note has the reason), 'enable', or 'test', which is put on record.
-- Whether there is such a type.
create or replace function web_job.act_on_type(name text, act text, made_by text, note text) returns boolean
language plpgsql security definer set search_path = web_job, pg_temp as $$
#variable_conflict use_column
begin
    perform set_config('web_job.made_by', act_on_type.made_by, true), set_config('web_job.note', act_on_type.note, true);
    if act = 'test' then
        insert into type_change (type, what, note, made_by)
            select t.name, 'tested', nullif(act_on_type.note, ''), act_on_type.made_by from type t where t.name = act_on_type.name;
    else
        update type t set disabled = case act when 'disable' then act_on_type.note end, changed_at = clock_timestamp()
            where t.name = act_on_type.name and act in ('disable', 'enable');
    end if;
    perform set_config('web_job.made_by', '', true), set_config('web_job.note', '', true);
    return exists (select from type t where t.name = act_on_type.name);
end $$;

-- Signals a page of the jobs that a type held that it holds them no longer. Returns how many were signalled, and the last one.
create or replace function web_job.release(type text, after text default '', most int default 1000,
    out signalled bigint, out last text)
language plpgsql security definer set search_path = web_job, pg_temp as $$
#variable_conflict use_column
begin
    select count(*), max(id) into signalled, last from (
        select id, perdure.signal('web-job', id, 'type_changed') from (
            (select j.id from job j where j.type = release.type and j.state = 'held' and j.id > release.after
                order by j.id limit most)
            union -- those whose column does not show yet that they are held
            (select j.id from perdure.behind b join perdure.entity e using (lifecycle, id) join job j on j.id = e.id
                where b.lifecycle = 'web-job' and e.state = 'held' and j.type = release.type and j.id > release.after
                order by j.id limit most)
            order by id limit most) x) y;
end $$;

-- Puts a token on record, before the call that hands it to a page. Nothing where there is no such job.
create or replace function web_job.expect_callback(digest bytea, job text) returns void
language sql set search_path = web_job, pg_temp as $$
    insert into callback (digest, job, generation)
        select $1, $2, i.generation from perdure.ident i where i.lifecycle = 'web-job' and i.id = $2
        on conflict do nothing
$$;

-- Records a page's callback, one for each token. Returns 'accepted' (also if the page repeats it), 'used' (the page has
-- sent another one before), 'over' (the job has ended, or was restarted) or 'unknown'.
create or replace function web_job.called_back(token text, ok boolean default true, body jsonb default null, why text default null)
returns text language plpgsql security definer set search_path = web_job, pg_temp as $$
#variable_conflict use_column
declare
    c callback;
    reported jsonb := jsonb_build_object('ok', coalesce(ok, true), 'body', body, 'why', left(why, 500));
begin
    if octet_length(reported::text) > 65536 then
        raise exception 'web_job.called_back: the body has % bytes', octet_length(reported::text)
            using hint = 'At most 64 kB: keep it in a table or a file, and say where.', errcode = 'invalid_parameter_value';
    end if;
    select * into c from callback x where x.digest = sha256(convert_to(coalesce(token, ''), 'UTF8')) for update;
    if not found then
        return 'unknown';
    elsif c.called_at is not null then
        return case when c.report = reported then 'accepted' else 'used' end;
    elsif not exists (select from perdure.ident i where i.lifecycle = 'web-job' and i.id = c.job and i.generation = c.generation)
        or perdure.signal('web-job', c.job, 'called_back', reported, 'callback ' || encode(c.digest, 'hex')) = 'finished' then
        return 'over';
    end if;
    update callback x set called_at = clock_timestamp(), report = reported where x.digest = c.digest;
    return 'accepted';
end $$;

comment on function web_job.called_back is 'perdure:callbacks A page reports by its token what became of its job.';

-- What became of each job, and what its page answered last: by its callback, when it was asked how far it is, or to its call.
create or replace view web_job.result as
    select j.id, j.type, j.state, j.parent, answer.body
    from web_job.job j left join lateral (
        select nullif(x.body, 'null') as body from (
            select c.generation, 0 as place, c.report->'body' as body from web_job.callback c where c.job = j.id and c.called_at is not null
            union all
            select e.generation, case e.effect when 'follow-page' then 1 else 2 end, e.receipt->'body' from perdure.effect e
                where e.lifecycle = 'web-job' and e.id = j.id and e.status = 'done'
                    and e.effect in ('follow-page', 'call-page', 'call-page-inline')) x
        order by x.generation desc, nullif(x.body, 'null') is null, x.place limit 1) answer on true;

-- What the console reads and calls: `perdure grant` gives it to its role.
comment on table web_job.type is 'perdure:reader A job type a row.';
comment on table web_job.type_change is 'perdure:reader Who changed which job type.';
comment on table web_job.job is 'perdure:reader A job a row.';
comment on table web_job.family is 'perdure:reader How far the children of a master are.';
comment on table web_job.refused_child is 'perdure:reader Children that can not become jobs.';
comment on function web_job.act_on_type is 'perdure:operator Disables or enables a job type, or puts a test on record.';
comment on function web_job.release is 'perdure:operator Releases the jobs that a type held.';

revoke all on all functions in schema web_job from public;
revoke all on all tables in schema web_job from public;
revoke all on schema web_job from public;
