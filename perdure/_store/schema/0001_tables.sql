-- Tables of perdure. Applied once, in a transaction, by `perdure migrate`.

create schema if not exists perdure;
revoke all on schema perdure from public;

create table perdure.migration (
    number     int         primary key,
    name       text        not null,
    oldest     int         not null default 1, -- workers run on it whose newest migration is this one or a later one
    applied_at timestamptz not null default now()
);

-- One narrow row per entity for ever. It is the gate of every write (invariants 6 and 7).
create table perdure.ident (
    lifecycle text   not null collate "C" check (lifecycle ~ '^[a-z][a-z0-9_-]{0,62}$'),
    id        text   not null collate "C" check (octet_length(id) between 1 and 900 and id !~ '[[:cntrl:]]'),
    round     int    not null default 0,
    version   bigint not null default 0,
    final     text,
    primary key (lifecycle, id)
);

-- One row per open lifecycle: what it shows, and all that recovery needs.
create table perdure.entity (
    lifecycle   text        not null collate "C",
    id          text        not null collate "C",
    round       int         not null,
    state       text        not null,
    since       timestamptz not null default clock_timestamp(),
    stuck_at    timestamptz,
    attention   text,
    input       jsonb,
    snapshot    jsonb,
    tenant      text,
    workflow_id text,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (lifecycle, id)
) with (fillfactor = 80);

create index entity_by_state on perdure.entity (lifecycle, state, since);
create index entity_attention on perdure.entity (lifecycle) where attention is not null;

-- The fence: one row per key. A row here means that an attempt may have left (invariant 2).
create table perdure.effect (
    key        text        primary key collate "C",
    lifecycle  text        not null collate "C",
    id         text        not null collate "C",
    round      int         not null,
    effect     text        not null,
    token      text        not null,
    status     text        not null
        check (status in ('attempting', 'not_done', 'in_doubt', 'done', 'refused', 'abandoned')),
    digest     text        not null,
    attempts   int         not null default 1,
    first_at   timestamptz not null,
    attempt_at timestamptz not null,
    deadline   timestamptz not null,
    receipt    jsonb,
    clue       jsonb,
    why        text,
    settled_by text
) with (fillfactor = 80);

create index effect_by_entity on perdure.effect (lifecycle, id);
create index effect_in_doubt on perdure.effect (lifecycle, deadline) where status in ('attempting', 'in_doubt');

-- What the relay must still deliver to Temporal.
create table perdure.outbox (
    seq        bigint      primary key generated always as identity,
    lifecycle  text        not null collate "C",
    id         text        not null collate "C",
    round      int         not null,
    kind       text        not null check (kind in ('start', 'wake')),
    body       jsonb       not null default '{}',
    created_at timestamptz not null default clock_timestamp(),
    not_before timestamptz not null default clock_timestamp(),
    tries      int         not null default 0,
    error      text
);

create index outbox_due on perdure.outbox (not_before, seq);

-- What could not be delivered, with the reason; out of everybody's way (invariant 8).
create table perdure.rejected (
    seq         bigint      primary key,
    lifecycle   text        not null,
    id          text        not null,
    round       int         not null,
    kind        text        not null,
    body        jsonb       not null,
    reason      text        not null,
    rejected_at timestamptz not null default clock_timestamp()
);

-- App rows that do not show the newest state yet: the app held them, or they refused it.
create table perdure.behind (
    lifecycle  text        not null collate "C",
    id         text        not null collate "C",
    app_table  text        not null,
    app_column text        not null,
    app_key    text        not null,
    error      text,
    next_try   timestamptz not null default clock_timestamp(),
    primary key (lifecycle, id)
);

-- By month of their last change. No default partition: a month is dropped whole.
create table perdure.finished (
    lifecycle   text        not null collate "C",
    id          text        not null collate "C",
    round       int         not null,
    state       text        not null,
    why         text,
    input       jsonb,
    snapshot    jsonb,
    tenant      text,
    workflow_id text,
    created_at  timestamptz not null,
    finished_at timestamptz not null default clock_timestamp(),
    primary key (lifecycle, id, round, finished_at)
) partition by range (finished_at);

-- Append-only: audit trail and event feed.
create table perdure.transition (
    lifecycle text        not null collate "C",
    id        text        not null collate "C",
    round     int         not null,
    version   bigint      not null,
    state     text        not null,
    attention text,
    why       text,
    made_by   text,
    at        timestamptz not null default clock_timestamp(),
    primary key (lifecycle, id, version, at)
) partition by range (at);

-- Makes the partitions of this month and the next `ahead` ones; safe to call at any time.
create function perdure.make_months(ahead int default 24) returns int
language plpgsql set search_path = perdure, pg_temp as $$
declare
    first_day date;
    made int := 0;
    parent text;
    child text;
begin
    perform pg_advisory_xact_lock(hashtext('perdure.make_months'));
    -- UTC, so that servers in any zone agree on what a month is; one month back for clocks that differ.
    for month in -1..ahead loop
        first_day := (date_trunc('month', clock_timestamp() at time zone 'UTC') + make_interval(months => month))::date;
        foreach parent in array array['finished', 'transition'] loop
            if to_regclass(format('perdure.%s_%s', parent, to_char(first_day, 'YYYY_MM'))) is null then
                -- Made apart and attached: `partition of` would wait for every transaction that has written here, and
                -- everybody behind it.
                child := parent || '_' || to_char(first_day, 'YYYY_MM');
                execute format('create table perdure.%I (like perdure.%I including all)', child, parent);
                execute format('alter table perdure.%I attach partition perdure.%I for values from (%L) to (%L)', parent, child,
                    first_day::text || ' 00:00:00+00', (first_day + interval '1 month')::date::text || ' 00:00:00+00');
                made := made + 1;
            end if;
        end loop;
    end loop;
    return made;
end $$;

select perdure.make_months();
