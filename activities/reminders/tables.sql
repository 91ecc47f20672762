-- Dosage reminders: patients, and what their doses became. May be applied again and again.
-- An app needs USAGE on the schema and what it does to `reminders.patient`; no right on the schema `perdure`. PostgreSQL lets
-- everybody execute a new function, and attach it to a table as a trigger: the end of this file revokes that.
create schema if not exists reminders;

-- Why nobody could be reminded by this plan; null where that is not seen at first sight. The lifecycle looks closer.
create or replace function reminders.problem_with(plan jsonb) returns text
language plpgsql immutable set search_path = reminders, pg_temp as $$
declare
    each jsonb;
begin
    if jsonb_typeof(plan->'rules') is distinct from 'array' or jsonb_array_length(plan->'rules') = 0 then
        return 'the plan is empty: give {"rules": [{"id": ..., "rule": ..., "start": ..., "what": ...}]}';
    elsif octet_length(plan::text) > 600000 then
        return format('the plan has %s bytes: give 600,000 at most', octet_length(plan::text));
    end if;
    for each in select value from jsonb_array_elements(plan->'rules') loop
        if jsonb_typeof(each) <> 'object' or coalesce(each->>'id', '') !~ '^[a-z0-9][a-z0-9-]{0,39}$' then
            return format('%L is no id of a rule: take lower-case letters, digits and dashes, 40 at most', left(each->>'id', 60));
        elsif coalesce(each->>'rule', '') !~ '^(RRULE:)?FREQ=(HOURLY|DAILY|WEEKLY|MONTHLY|YEARLY)(;[A-Z]+=[-+0-9A-Z,]+)*$' then
            return format('rule %L: %L is no recurrence rule of RFC 5545 such as FREQ=DAILY;BYHOUR=8,20', each->>'id', left(each->>'rule', 200));
        end if;
    end loop;
    return null;
end $$;

create table if not exists reminders.patient (
    id text primary key constraint id_has_1_to_200_characters check (length(id) between 1 and 200),
    plan jsonb not null,
    zone text not null, -- IANA
    phone text not null, -- E.164, or sealed
    channel text not null default 'sms' constraint channel_is_sms_or_call check (channel in ('sms', 'call')),
    language text not null default 'en',
    quiet_hours jsonb, -- {"start": "22:00", "end": "07:00"}, local
    confirm boolean not null default false,
    paused boolean not null default false,
    signed_off boolean not null default false,
    state text not null default 'active',
    signed_up_at timestamptz not null default clock_timestamp()
);

alter table reminders.patient drop constraint if exists patient_state_check,
    add constraint patient_state_check check (state in ('active', 'paused', 'unusable', 'completed', 'ended'));

-- For the reconciliation: patients that should have a lifecycle.
create index if not exists patient_active on reminders.patient (id) where state = 'active';

-- What the lifecycle of a patient is given. Nobody signs up paused, but the reminders of a patient who paused may be restarted.
create or replace function reminders.input(p reminders.patient) returns jsonb language sql immutable
set search_path = reminders, pg_temp as $$
    select jsonb_build_object('plan', p.plan, 'zone', p.zone, 'phone', p.phone, 'channel', p.channel,
        'language', p.language, 'quiet_hours', p.quiet_hours, 'confirm', p.confirm)
        || case when p.paused then '{"paused": true}' else '{}' end::jsonb
$$;

-- What can be seen to be wrong is refused, in the app's transaction.
create or replace function reminders.check_patient() returns trigger
language plpgsql security definer set search_path = reminders, pg_temp as $$
declare
    problem text := problem_with(new.plan);
begin
    if problem is not null then
        raise exception 'reminders.patient: %', problem using errcode = 'check_violation';
    end if;
    begin
        perform now() at time zone new.zone;
    exception when others then
        raise exception 'reminders.patient: there is no time zone %', quote_literal(left(new.zone, 80))
            using hint = 'Give an IANA name such as America/New_York.', errcode = 'check_violation';
    end;
    if tg_op = 'INSERT' and (new.signed_off or new.paused) then
        raise exception 'reminders.patient: nobody signs up paused or signed off'
            using hint = 'Insert the row as it is when reminders begin.', errcode = 'check_violation';
    elsif tg_op = 'UPDATE' and new.id <> old.id then
        raise exception 'reminders.patient: the id % stays', quote_literal(old.id)
            using hint = 'Sign the patient off, and up again under the other id.', errcode = 'check_violation';
    elsif tg_op = 'UPDATE' and old.signed_off and not new.signed_off and not exists ( -- restarted, and not signed off since
        select from perdure.entity e where e.lifecycle = 'dosage-reminders' and e.id = old.id and not exists (
            select from perdure.message m where m.lifecycle = e.lifecycle and m.id = e.id and m.generation = e.generation
                and m.name = 'sign_off'))
    then
        raise exception 'reminders.patient: % has signed off', quote_literal(old.id)
            using hint = 'To sign up again, first restart: perdure.restart(''dosage-reminders'', id, by, note, reminders.input(row)).',
                errcode = 'check_violation';
    end if;
    return new;
end $$;

create or replace trigger checked before insert or update of id, plan, zone, signed_off on reminders.patient
    for each row execute function reminders.check_patient();

-- What changes are dated by.
create or replace function reminders.clock() returns timestamptz language sql volatile
set search_path = reminders, pg_temp as 'select clock_timestamp()';

-- The lifecycle begins with the row, in the same transaction.
create or replace function reminders.sign_up() returns trigger
language plpgsql security definer set search_path = reminders, pg_temp as $$
begin
    if perdure.start('dosage-reminders', new.id, input(new)) <> 'started' then
        raise exception 'reminders.patient: the id % was used before', quote_literal(new.id)
            using hint = 'Give each patient an id of its own.', errcode = 'unique_violation';
    end if;
    return null;
end $$;

create or replace trigger signs_up after insert on reminders.patient for each row execute function reminders.sign_up();

-- And it is sent what changes in the row, with the time. A row that is deleted has signed off.
create or replace function reminders.signal_change() returns trigger
language plpgsql security definer set search_path = reminders, pg_temp as $$
declare
    since jsonb := jsonb_build_object('at', reminders.clock());
    changed jsonb;
begin
    if tg_op = 'DELETE' or tg_name = 'signs_off' then
        perform perdure.signal('dosage-reminders', old.id, 'sign_off', since);
        return null;
    end if;
    select jsonb_object_agg(n.key, n.value) into changed
        from jsonb_each(input(new)) n join jsonb_each(input(old)) o on o.key = n.key where n.value is distinct from o.value;
    if changed is not null and perdure.signal('dosage-reminders', new.id, 'changed', changed || since) = 'finished'
        and changed ? 'plan' and not new.signed_off
    then
        raise exception 'reminders.patient: the reminders of % have ended, so a new plan starts none', quote_literal(new.id)
            using hint = 'First restart them, in the same transaction: '
                'perdure.restart(''dosage-reminders'', id, by, note, reminders.input(row)).',
                errcode = 'check_violation';
    end if;
    if new.paused and not old.paused then
        perform perdure.signal('dosage-reminders', new.id, 'pause', since);
    elsif old.paused and not new.paused then
        perform perdure.signal('dosage-reminders', new.id, 'resume', since);
    end if;
    return null;
end $$;

create or replace trigger signals_change after update of plan, zone, phone, channel, language, quiet_hours, confirm, paused or delete
    on reminders.patient for each row execute function reminders.signal_change();

-- Also where the column says so already: the reminders may have been restarted since.
create or replace trigger signs_off after update of signed_off on reminders.patient
    for each row when (new.signed_off) execute function reminders.signal_change();

-- Doses that were due and were not started, with the reason; `due` by the patient's clock. A dose whose local time comes
-- again may still be started.
create table if not exists reminders.not_started (
    patient text,
    rule text,
    due timestamp,
    state text not null check (state in ('withdrawn', 'expired')),
    why text not null,
    at timestamptz not null default clock_timestamp(),
    primary key (patient, rule, due)
);

-- For workers, which need no other right on the table. The first reason stays.
create or replace function reminders.not_start(patient text, doses jsonb) returns void
language sql security definer set search_path = reminders, pg_temp as $$
    insert into not_started (patient, rule, due, state, why)
        select not_start.patient, d.rule, d.due, d.state, d.why
        from jsonb_to_recordset(doses) d (rule text, due timestamp, state text, why text)
        on conflict do nothing
$$;

-- Each dose that was due: whose, by which rule, when by the patient's clock, and what became of it. An entity `dose` whose id is
-- not of that form is left out; so that no id fails the query, the day is counted from the first of its month.
create or replace view reminders.dose as
    select substring(id from '^(.*)/[^/]+/[^/]+$') as patient, substring(id from '([^/]+)/[^/]+$') as rule, due, state, why, at
    from (
        select d.*, case when id ~ '^.+/[^/]+/(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]$'
            then overlay("right"(id, 16) placing '01' from 9)::timestamp + (substr("right"(id, 16), 9, 2)::int - 1) * interval '1 day'
            end as due
        from (
            select id, case state when 'starting' then 'due' else state end as state, null as why, since as at
                from perdure.entity where lifecycle = 'dose'
            union all
            select id, state, why, finished_at from perdure.finished where lifecycle = 'dose') d) d
    where to_char(due, 'YYYY-MM-DD"T"HH24:MI') = "right"(id, 16)
    union all
    select patient, rule, due, state, why, at from reminders.not_started n
        where not exists (select from perdure.ident i where i.lifecycle = 'dose'
            and i.id = n.patient || '/' || n.rule || '/' || to_char(n.due, 'YYYY-MM-DD"T"HH24:MI'));

create index if not exists not_started_by_due on reminders.not_started (due);

-- Finds the doses of a local day among what is finished. It is partial: other lifecycles pay nothing for it.
create index if not exists dose_by_due on perdure.finished ("right"(id, 16)) where lifecycle = 'dose';

-- The doses that were due within a local time, each once, with what became of it: `kind` distinguishes what is in doubt, and what
-- is expired because its whole window lay in the quiet hours. It has no search_path, so that the planner sees its statement.
create or replace function reminders.doses_due(since timestamp, until timestamp)
returns table (id text, rule text, hour int, state text, why text, kind text, started boolean) language sql stable as $$
    with doubtful as materialized (
        select distinct x.id from perdure.effect x
        where x.lifecycle = 'dose' and x.status in ('attempting', 'in_doubt')
            and (x.status = 'in_doubt' or x.deadline < pg_catalog.now())),
    opened as materialized (
        select e.id, e.state from perdure.entity e
        where e.lifecycle = 'dose' and "right"(e.id, 16) >= to_char(doses_due.since, 'YYYY-MM-DD"T"HH24:MI')
            and "right"(e.id, 16) < to_char(doses_due.until, 'YYYY-MM-DD"T"HH24:MI')
            and e.id ~ '^.+/[^/]+/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$'),
    over as materialized (
        select f.id, f.generation, f.state, f.why from perdure.finished f
        where f.lifecycle = 'dose' and "right"(f.id, 16) >= to_char(doses_due.since, 'YYYY-MM-DD"T"HH24:MI')
            and "right"(f.id, 16) < to_char(doses_due.until, 'YYYY-MM-DD"T"HH24:MI')
            and f.id ~ '^.+/[^/]+/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$'),
    again as (select o.id, max(o.generation) as generation from over o where o.generation > 0 group by o.id),
    every as (
        select o.id, case o.state when 'starting' then 'due' else o.state end as state, null as why, true as started from opened o
        union all
        select o.id, o.state, o.why, true from over o
        where o.id not in (select x.id from opened x) and (o.id, o.generation) not in (
            select a.id, g from again a, generate_series(0, a.generation - 1) g)
        union all
        select n.patient || '/' || n.rule || '/' || to_char(n.due, 'YYYY-MM-DD"T"HH24:MI'), n.state, n.why, false
        from reminders.not_started n
        where n.due >= doses_due.since and n.due < doses_due.until and not exists (
            select from perdure.ident i where i.lifecycle = 'dose'
                and i.id = n.patient || '/' || n.rule || '/' || to_char(n.due, 'YYYY-MM-DD"T"HH24:MI')))
    select d.id, split_part("left"(d.id, -17), '/', -1), substr("right"(d.id, 16), 12, 2)::int, d.state, d.why,
        case when exists (select from doubtful x where x.id = d.id) then 'in doubt'
            when d.state = 'expired' and d.why = 'all of its window lies in the quiet hours' then 'quiet hours'
            when d.state in ('sending', 'accepted') then 'sending'
            when d.state in ('refused', 'error') then 'refused' else d.state end, d.started
    from every d
$$;

-- How many patients have which quiet hours, and nothing else of them.
create or replace view reminders.quiet as
    select quiet_hours->>'start' as begins, quiet_hours->>'end' as ends, count(*) as patients
    from reminders.patient where state in ('active', 'paused') group by 1, 2;

-- What the console reads: `perdure grant` gives it to its role.
comment on table reminders.not_started is 'perdure:reader Doses that were due and were not started.';
comment on view reminders.quiet is 'perdure:reader How many patients have which quiet hours.';
comment on function reminders.doses_due is 'perdure:reader The doses that were due within a local time.';

revoke all on all routines in schema reminders from public;
revoke all on all tables in schema reminders from public;
revoke all on schema reminders from public;
-- It reads nothing: who may read a patient's row may ask for the input that it makes.
grant execute on function reminders.input to public;
