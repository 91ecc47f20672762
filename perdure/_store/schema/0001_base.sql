-- The tables of perdure. `perdure migrate` applies this file once; the functions stand in functions/, one file each.

create schema if not exists perdure;

-- ===================================================================================================================
-- What was applied, and who may do what
-- ===================================================================================================================

create table perdure.migration (
    number     int         primary key,
    name       text        not null,
    oldest     int         not null default 1, -- workers run on it whose newest migration is this one or a later one
    applied_at timestamptz not null default now()
);

-- The files of functions/ as they were applied last.
create table perdure.applied_function (
    name       text        primary key,
    sha256     text        not null, -- of the file
    release    text        not null, -- that applied it: an older one does not put its own text back
    applied_at timestamptz not null default now()
);

-- What `perdure grant ROLE --as KIND` gave to roles. It holds for the functions NAME_scoped; tables have policies.
create table perdure.permission (
    role      text not null collate "C",
    kind      text not null,
    lifecycle text collate "C" check (lifecycle ~ '^[a-z][a-z0-9_-]{0,62}$'), -- null = every one
    tenant    text,                                                           -- null = every one
    unique nulls not distinct (role, kind, lifecycle, tenant)
);

-- ===================================================================================================================
-- Which database this is (invariant 11)
-- ===================================================================================================================

-- A copy of it, or one that was put back, sends nothing before somebody has said what it is. A mark is exchanged with Temporal,
-- since base backups differ from their original in nothing else.
create table perdure.database (
    one                boolean     primary key default true check (one),
    mark               text,        -- null = not bound yet: nothing is checked, as in tests without Temporal
    epoch              bigint      not null default 0, -- when the newest began, in microseconds; an older one may have lost records
    system_identifier  bigint,
    database_oid       oid,
    timeline           int,
    postmaster_started timestamptz,
    filenode           oid,         -- of this table when the mark was exchanged. One that was restored over it has another
    namespace          text,
    namespace_id       text,
    scope              text,        -- '' = none
    exchanged_at       timestamptz,
    copied_at          timestamptz,
    stopped            text         -- why nothing may be sent from here
);

insert into perdure.database default values;

-- A default of `entity` names it, so it has to be there before; functions/epoch.sql has its text.
create function perdure.epoch() returns bigint language sql as 'select null::bigint';

-- ===================================================================================================================
-- Entities
-- ===================================================================================================================

-- One narrow row per entity for ever. It is the gate of every write (invariants 6 and 7).
create table perdure.ident (
    lifecycle text   not null collate "C" check (lifecycle ~ '^[a-z][a-z0-9_-]{0,62}$'),
    id        text   not null collate "C" check (octet_length(id) between 1 and 900 and id !~ '[[:cntrl:]]'),
    generation     int    not null default 0,
    version   bigint not null default 0,
    final     text,
    tenant    text,  -- so that a restart has it when the months of the entity are gone
    primary key (lifecycle, id)
);

-- One row per open lifecycle: what it shows, and all that recovery needs.
create table perdure.entity (
    lifecycle   text        not null collate "C",
    id          text        not null collate "C",
    generation       int         not null,
    state       text        not null,
    since       timestamptz not null default clock_timestamp(),
    stuck_at    timestamptz,
    attention   text,
    input       jsonb,
    snapshot    jsonb,
    memory      jsonb,      -- what a run remembers beside its snapshot: how its effects ended, who asked for its end
    heard       int         not null default 0, -- ordinal of the last message that the snapshot holds
    tenant      text,
    workflow_id text,
    created_at  timestamptz not null default clock_timestamp(),
    epoch       bigint      not null default perdure.epoch(), -- in which it was started
    left_to     text,       -- in a copied database: whose it is, what was open in its original. It is never sent from here
    primary key (lifecycle, id)
) with (fillfactor = 80);

create index entity_by_state on perdure.entity (lifecycle, state, since);
create index entity_attention on perdure.entity (lifecycle) where attention is not null;

-- By month of their last change. No default partition: a month is dropped whole.
create table perdure.finished (
    lifecycle   text        not null collate "C",
    id          text        not null collate "C",
    generation       int         not null,
    state       text        not null,
    why         text,
    input       jsonb,
    snapshot    jsonb,
    tenant      text,
    workflow_id text,
    created_at  timestamptz not null,
    finished_at timestamptz not null default clock_timestamp(),
    primary key (lifecycle, id, generation, finished_at)
) partition by range (finished_at);

-- Drawn while the entity's row in `ident` is held, so an entity's transitions are in order.
create sequence perdure.transition_seq;

-- Append-only: audit trail and event feed, for followers in any language that remember only their last position. `unnest` in
-- functions/feed.sql names the columns in this order.
create table perdure.transition (
    lifecycle    text        not null collate "C",
    id           text        not null collate "C",
    generation        int         not null,
    version      bigint      not null,
    state        text        not null,
    attention    text,
    why          text,
    made_by      text,
    at           timestamptz not null default clock_timestamp(),
    -- Which transaction wrote it. A crash gives the numbers of transactions whose write-ahead log was not flushed to others. A
    -- position counts only transactions that have an event as over, and those are on disk: a transition is never committed
    -- asynchronously.
    xid          xid8        not null default
        case when current_setting('synchronous_commit') <> 'off' or set_config('synchronous_commit', 'on', true) = 'on'
            then pg_current_xact_id() end,
    seq          bigint      not null default nextval('perdure.transition_seq'),
    effect       jsonb,      -- as it was after it had changed when its entity was over; null for every other transition
    session_role text        default session_user, -- as PostgreSQL authenticated it. `made_by` is what a caller says; nobody
                                                   -- is granted to write this column
    primary key (lifecycle, id, version, at)
) partition by range (at);

alter sequence perdure.transition_seq owned by perdure.transition.seq;
create index transition_by_seq on perdure.transition (seq);
create index transition_by_xid on perdure.transition (xid);

-- ===================================================================================================================
-- Effects
-- ===================================================================================================================

-- The fence: one row per key. A row here means that an attempt may have left (invariant 2).
create table perdure.effect (
    key           text        primary key collate "C",
    lifecycle     text        not null collate "C",
    id            text        not null collate "C",
    generation         int         not null,
    version       bigint      not null default 0, -- of the newest write about it: no attempt begins that was ordered before
    effect        text        not null,
    token         text        not null,
    status        text        not null
        check (status in ('attempting', 'not_done', 'in_doubt', 'done', 'refused', 'abandoned')),
    digest        text        not null,
    attempts      int         not null default 1,
    first_at      timestamptz not null,
    attempt_at    timestamptz not null,
    -- When the first attempt was begun, of those before the current one, of which nobody knows whether it happened; null = there
    -- is none.
    earlier_doubt timestamptz,
    deadline      timestamptz not null,
    receipt       jsonb,
    lookup_hint          jsonb,
    why           text,
    settled_by    text
) with (fillfactor = 80);

create index effect_by_entity on perdure.effect (lifecycle, id);
create index effect_in_doubt on perdure.effect (lifecycle, deadline) where status in ('attempting', 'in_doubt');

-- ===================================================================================================================
-- Starts and messages, on their way to Temporal
-- ===================================================================================================================

-- What was said to an open lifecycle, until its end. No foreign key: an open transaction of the app would block that end.
create table perdure.message (
    lifecycle    text        not null collate "C",
    id           text        not null collate "C",
    generation        int         not null,
    message_id   text        not null collate "C",
    kind         text        not null check (kind in ('signal', 'cancel', 'dropped')),
    name         text        not null,
    payload      jsonb,
    traceparent  text,
    ordinal      int,        -- the place in which it is delivered, on record before that
    created_at   timestamptz not null default clock_timestamp(),
    delivered_at timestamptz,
    primary key (lifecycle, id, generation, message_id)
);

create unique index message_in_order on perdure.message (lifecycle, id, generation, ordinal) where ordinal is not null;

-- What the relay must still deliver to Temporal. It delivers by entity, each entity's in order; so that is the key.
create table perdure.outbox (
    lifecycle   text        not null collate "C",
    id          text        not null collate "C",
    seq         bigint      generated always as identity,
    generation       int         not null,
    kind        text        not null check (kind in ('start', 'wake', 'message')),
    body        jsonb       not null default '{}',
    message_id  text        collate "C",
    traceparent text,       -- the trace in which an app started the entity, or sent the message
    priority    smallint    not null default 3 check (priority between 1 and 5),
    created_at  timestamptz not null default clock_timestamp(),
    wanted_at   timestamptz, -- not before then, says the app; `not_before` says when to look at it next
    not_before  timestamptz not null default clock_timestamp(),
    tries       int         not null default 0,
    error       text,
    declined    text[]      not null default '{}', -- relays whose code can't deliver it, or what stands before it
    primary key (lifecycle, id, seq)
);

create index outbox_due on perdure.outbox (lifecycle, priority, not_before, seq);
create index outbox_declined on perdure.outbox (lifecycle) where declined <> '{}';

-- What could not be delivered, with the reason; out of everybody's way (invariant 8).
create table perdure.rejected (
    seq         bigint      primary key,
    lifecycle   text        not null,
    id          text        not null,
    generation       int         not null,
    kind        text        not null,
    body        jsonb       not null,
    message_id  text,
    traceparent text,
    priority    smallint    not null default 3,
    created_at  timestamptz,
    wanted_at   timestamptz,
    reason      text        not null,
    rejected_at timestamptz not null default clock_timestamp()
);

create index rejected_by_entity on perdure.rejected (lifecycle collate "C", id collate "C", seq);

-- Relays that run, and what the app of each declares: a relay delivers what it knows and leaves the rest to others.
create table perdure.relay (
    id         text        primary key collate "C",
    lifecycles text[]      not null,
    signals    text[]      not null, -- lifecycle.signal
    began_at   timestamptz not null default clock_timestamp(),
    seen_at    timestamptz not null default clock_timestamp()
);

-- ===================================================================================================================
-- The column of the app's own table
-- ===================================================================================================================

-- The columns that lifecycles declare, by the names that PostgreSQL resolved when the owner of the schema declared them
-- (`perdure grant ROLE --as column`, or a worker that owns the schema). An order, which stands in Temporal, names no table.
create table perdure.app_column (
    lifecycle    text primary key collate "C",
    app_table    text not null, -- quoted, with its schema
    key_column   text not null,
    state_column text not null
);

-- What each move has to show in the app's row. It is appended to only: a move waits for nobody who shows an earlier one.
create table perdure.behind (
    lifecycle  text        not null collate "C",
    id         text        not null collate "C",
    version    bigint      not null default 0,
    app_table  text        not null,
    app_column text        not null,
    app_key    text        not null,
    error      text,
    tries      int         not null default 0,
    next_try   timestamptz not null default clock_timestamp(),
    primary key (lifecycle, id, version)
);

create index behind_due on perdure.behind (tries, next_try);

-- ===================================================================================================================
-- The event feed
-- ===================================================================================================================

-- The databases that this one has been, newest last: a position holds in the one that gave it. Another one begins where this is a
-- copy (another oid) or a dump was restored: rows that were loaded have another `xmin` than was noted.
create table perdure.feed_origin (
    number            int         primary key,
    id                text        not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    system_identifier bigint      not null,
    database_oid      oid         not null,
    noted_xmin        text,
    first_xid         xid8        not null, -- no later transition has a smaller one
    floor             bigint      not null, -- up to this `seq` transitions came by a dump: their `xid` means nothing
    since             timestamptz not null default clock_timestamp()
);

-- ===================================================================================================================
-- Months that are exported and dropped
-- ===================================================================================================================

-- What became of a month.
create table perdure.month (
    month       date           primary key check (extract(day from month) = 1),
    exported_at timestamptz,
    files       jsonb          not null default '[]', -- of the newest export: part, path, rows, bytes
    -- Every path that an export may have written to, also one that was cut off, or that went to another folder.
    paths       text[]         not null default '{}',
    forgotten   jsonb          not null default '{}', -- rows that were erased since then, by table
    dropping_at timestamptz,                          -- from then on nobody makes it again
    clearing_at timestamptz,                          -- from then on its effects go: an export would not be whole
    dropped_at  timestamptz,
    -- What followers of the feed lose with it: transactions and the highest `seq` of its own transitions; the highest of those
    -- loaded; in which database.
    origin      text,
    notice      int            not null default 0,    -- grows with each month that goes
    xids        int8multirange not null default '{}',
    last_seq    bigint         not null default 0,
    loaded_seq  bigint         not null default 0
);

-- Transitions of months that are gone, of entities that were open then. They go with the entity's last month.
create table perdure.carried_transition (like perdure.transition, primary key (lifecycle, id, version, at));

-- Effects whose doubt outlived their month: they go when somebody has settled them.
create table perdure.kept_effect (
    key   text primary key collate "C",
    month date not null
);

-- ===================================================================================================================
-- The reconciliation
-- ===================================================================================================================

-- One row for each reconciliation.
create table perdure.reconciliation (
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
    generation      int         not null default 0,
    what       text        not null,
    advice     text        not null default '',
    mended     boolean     not null default false,
    first_seen timestamptz not null default clock_timestamp(),
    last_seen  timestamptz not null default clock_timestamp(),
    run        bigint      not null,
    primary key (kind, lifecycle, id, about)
);

create index finding_by_entity on perdure.finding (lifecycle, id);

-- ===================================================================================================================
-- What an app gives as data stands in no statistics of PostgreSQL: they would keep samples of it after it is erased, and for
-- ever where the table has become empty. No query looks for rows by these columns.
-- ===================================================================================================================

alter table perdure.entity
    alter column input set statistics 0, alter column snapshot set statistics 0, alter column memory set statistics 0;
alter table perdure.finished alter column input set statistics 0, alter column snapshot set statistics 0;
alter table perdure.effect alter column receipt set statistics 0, alter column lookup_hint set statistics 0;
alter table perdure.message alter column payload set statistics 0;
alter table perdure.outbox alter column body set statistics 0;
alter table perdure.rejected alter column body set statistics 0, alter column reason set statistics 0;
alter table perdure.finding alter column what set statistics 0;
