-- The tables of perdure. `perdure migrate` applies this file once. The functions are in functions/, one file each.

create schema if not exists perdure;

-- ===================================================================================================================
-- Applied migrations and functions; permissions
-- ===================================================================================================================

create table perdure.migration (
    number     int         primary key,
    name       text        not null,
    oldest     int         not null default 1, -- number of the newest migration that a worker must have, at least, to run on it
    applied_at timestamptz not null default now()
);

-- The files of functions/, as they were last applied.
create table perdure.applied_function (
    name       text        primary key,
    sha256     text        not null, -- of the file
    release    text        not null, -- the release that applied it; an older release does not replace it
    applied_at timestamptz not null default now()
);

-- The permissions that `perdure grant ROLE --as KIND` granted. The functions NAME_scoped check them; tables have policies.
create table perdure.permission (
    role      text not null collate "C",
    kind      text not null,
    lifecycle text collate "C" check (lifecycle ~ '^[a-z][a-z0-9_-]{0,62}$'), -- null = all
    tenant    text,                                                           -- null = all
    unique nulls not distinct (role, kind, lifecycle, tenant)
);

-- ===================================================================================================================
-- The identity of this database (invariant 11)
-- ===================================================================================================================

-- A copy or a restored database sends nothing until a person has declared what it is. Workers exchange a mark with Temporal,
-- because nothing else distinguishes a base backup from its original.
create table perdure.database (
    one                boolean     primary key default true check (one),
    mark               text,        -- null = not bound yet, and not checked, as in tests without Temporal
    epoch              bigint      not null default 0, -- begin of the newest epoch, in microseconds; records from before it may be lost
    system_identifier  bigint,
    database_oid       oid,
    timeline           int,
    postmaster_started timestamptz,
    filenode           oid,         -- of this table at the last exchange; it differs if a dump was restored over the table
    namespace          text,
    namespace_id       text,
    scope              text,        -- '' = none
    exchanged_at       timestamptz,
    copied_at          timestamptz,
    stopped            text         -- why nothing may be sent from this database
);

insert into perdure.database default values;

-- A default in `entity` calls this function, so it must exist before that table. Its text is in functions/epoch.sql.
create function perdure.epoch() returns bigint language sql as 'select null::bigint';

-- ===================================================================================================================
-- Entities
-- ===================================================================================================================

-- One narrow row per entity, kept for ever. Every write passes this gate (invariants 6 and 7).
create table perdure.ident (
    lifecycle text   not null collate "C" check (lifecycle ~ '^[a-z][a-z0-9_-]{0,62}$'),
    id        text   not null collate "C" check (octet_length(id) between 1 and 900 and id !~ '[[:cntrl:]]'),
    generation     int    not null default 0,
    version   bigint not null default 0,
    final     text,
    tenant    text,  -- for a restart after the entity's months were dropped
    primary key (lifecycle, id)
);

-- One row per open entity: its displayed state, and the data for a recovery.
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
    memory      jsonb,      -- data of the run beside its snapshot: how its effects ended, who requested its end
    acknowledged int         not null default 0, -- ordinal of the last message that the snapshot holds
    tenant      text,
    workflow_id text,
    created_at  timestamptz not null default clock_timestamp(),
    epoch       bigint      not null default perdure.epoch(), -- the epoch of its start
    left_to     text,       -- in a copied database: the original that owns this open entity. It is never sent from here
    primary key (lifecycle, id)
) with (fillfactor = 80);

create index entity_by_state on perdure.entity (lifecycle, state, since);
create index entity_attention on perdure.entity (lifecycle) where attention is not null;

-- Finished entities, by the month of their last change. There is no default partition, because a month is dropped as a whole.
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

-- A value is taken while the entity's row in `ident` is locked, so the transitions of an entity are in order.
create sequence perdure.transition_seq;

-- Append-only audit trail and event feed. Followers in any language store only their last position. `unnest` in
-- functions/feed.sql lists the columns in this order.
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
    -- The transaction that wrote it. After a crash, PostgreSQL assigns the numbers of transactions whose write-ahead log was not
    -- flushed again. A position counts only transactions with an event as over. These are on disk, because a transition is
    -- never committed asynchronously.
    xid          xid8        not null default
        case when current_setting('synchronous_commit') <> 'off' or set_config('synchronous_commit', 'on', true) = 'on'
            then pg_current_xact_id() end,
    seq          bigint      not null default nextval('perdure.transition_seq'),
    effect       jsonb,      -- an effect that changed after its entity had ended, in its new form; null for any other transition
    session_role text        default session_user, -- the role that PostgreSQL authenticated. `made_by` is what a caller states;
                                                   -- no role may write this column
    primary key (lifecycle, id, version, at)
) partition by range (at);

alter sequence perdure.transition_seq owned by perdure.transition.seq;
create index transition_by_seq on perdure.transition (seq);
create index transition_by_xid on perdure.transition (xid);

-- ===================================================================================================================
-- Effects
-- ===================================================================================================================

-- The fence: one row per key. A row means that the request of an attempt may have left (invariant 2).
create table perdure.effect (
    key           text        primary key collate "C",
    lifecycle     text        not null collate "C",
    id            text        not null collate "C",
    generation         int         not null,
    version       bigint      not null default 0, -- version of the newest write about it; an attempt that was ordered earlier cannot begin
    effect        text        not null,
    token         text        not null,
    status        text        not null
        check (status in ('attempting', 'not_done', 'in_doubt', 'done', 'refused', 'abandoned')),
    digest        text        not null,
    attempts      int         not null default 1,
    first_at      timestamptz not null,
    attempt_at    timestamptz not null,
    -- Begin of the first attempt whose outcome is unknown, among those before the current one; null = none.
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
-- Deliveries to Temporal: starts and messages
-- ===================================================================================================================

-- Messages to an open entity, kept until its end. No foreign key, because an open transaction of the app would block that end.
create table perdure.message (
    lifecycle    text        not null collate "C",
    id           text        not null collate "C",
    generation        int         not null,
    message_id   text        not null collate "C",
    kind         text        not null check (kind in ('signal', 'cancel', 'dropped')),
    name         text        not null,
    payload      jsonb,
    traceparent  text,
    ordinal      int,        -- its place in the order of delivery, recorded before the delivery
    created_at   timestamptz not null default clock_timestamp(),
    delivered_at timestamptz,
    primary key (lifecycle, id, generation, message_id)
);

create unique index message_in_order on perdure.message (lifecycle, id, generation, ordinal) where ordinal is not null;

-- Rows that the relay must still deliver to Temporal. It delivers those of one entity in order, hence the key.
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
    due_at      timestamptz, -- the earliest time that the app allows; `not_before` is the time of the next try
    not_before  timestamptz not null default clock_timestamp(),
    tries       int         not null default 0,
    error       text,
    declined    text[]      not null default '{}', -- relays whose code cannot deliver it, or a row before it
    primary key (lifecycle, id, seq)
);

create index outbox_due on perdure.outbox (lifecycle, priority, not_before, seq);
create index outbox_declined on perdure.outbox (lifecycle) where declined <> '{}';

-- Rows that could not be delivered, with the reason, where they delay no other row (invariant 8).
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
    due_at      timestamptz,
    reason      text        not null,
    rejected_at timestamptz not null default clock_timestamp()
);

create index rejected_by_entity on perdure.rejected (lifecycle collate "C", id collate "C", seq);

-- The running relays, and the names that the app of each declares. A relay leaves rows with other names to other relays.
create table perdure.relay (
    id         text        primary key collate "C",
    lifecycles text[]      not null,
    signals    text[]      not null, -- lifecycle.signal
    began_at   timestamptz not null default clock_timestamp(),
    seen_at    timestamptz not null default clock_timestamp()
);

-- ===================================================================================================================
-- The state column in the app's own table
-- ===================================================================================================================

-- The columns that lifecycles declare, by the names that PostgreSQL resolved when the owner of the schema declared them
-- (`perdure grant ROLE --as column`, or a worker that owns the schema). An order, which Temporal stores, names no table.
create table perdure.app_column (
    lifecycle    text primary key collate "C",
    app_table    text not null, -- quoted, with its schema
    key_column   text not null,
    state_column text not null
);

-- The states to show in the app's rows. Append-only: a move does not wait for a session that shows an earlier state.
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

-- The origins of this database's positions, newest last: a position is valid in the origin that gave it. A new origin begins if
-- this database is a copy (its oid differs) or if a dump was restored (loaded rows have another `xmin` than was noted).
create table perdure.feed_origin (
    number            int         primary key,
    id                text        not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    system_identifier bigint      not null,
    database_oid      oid         not null,
    noted_xmin        text,
    first_xid         xid8        not null, -- the smallest xid of its transitions
    floor             bigint      not null, -- transitions up to this `seq` came from a dump, so their `xid` has no meaning
    since             timestamptz not null default clock_timestamp()
);

-- ===================================================================================================================
-- Months that are exported and dropped
-- ===================================================================================================================

-- The export and the drop of each month.
create table perdure.month (
    month       date           primary key check (extract(day from month) = 1),
    exported_at timestamptz,
    files       jsonb          not null default '[]', -- of the newest export: part, path, rows, bytes
    -- All paths that an export may have written to, including interrupted exports and earlier folders.
    paths       text[]         not null default '{}',
    forgotten   jsonb          not null default '{}', -- rows that were erased since the export, by table
    dropping_at timestamptz,                          -- since then the month is not created again
    clearing_at timestamptz,                          -- since then its effects are being deleted: an export would be incomplete
    dropped_at  timestamptz,
    -- The part of the feed that is lost with it: transactions and the highest `seq` of its own transitions; the highest `seq`
    -- of loaded ones; the origin.
    origin      text,
    notice      int            not null default 0,    -- grows with each dropped month
    xids        int8multirange not null default '{}',
    last_seq    bigint         not null default 0,
    loaded_seq  bigint         not null default 0
);

-- Transitions of dropped months whose entities were still open. They are deleted with the entity's last month.
create table perdure.carried_transition (like perdure.transition, primary key (lifecycle, id, version, at));

-- Effects in doubt whose month was dropped. They are deleted once they are settled.
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

-- What it found, and what it did about that. `about` distinguishes two findings of one kind and entity.
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
-- PostgreSQL keeps no statistics of columns with data of the app. They would contain samples after the data was erased, and for
-- ever if the table has become empty. No query filters by these columns.
-- ===================================================================================================================

alter table perdure.entity
    alter column input set statistics 0, alter column snapshot set statistics 0, alter column memory set statistics 0;
alter table perdure.finished alter column input set statistics 0, alter column snapshot set statistics 0;
alter table perdure.effect alter column receipt set statistics 0, alter column lookup_hint set statistics 0;
alter table perdure.message alter column payload set statistics 0;
alter table perdure.outbox alter column body set statistics 0;
alter table perdure.rejected alter column body set statistics 0, alter column reason set statistics 0;
alter table perdure.finding alter column what set statistics 0;
