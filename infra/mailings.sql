-- The app's table of mails, as any app could have it. Perdure only ever writes `state`.
create table if not exists mailing (
    id          bigint generated always as identity primary key,
    kind        text        not null default 'exactly_once' check (kind in ('at_least_once', 'exactly_once')),
    sender      text        not null,
    recipient   text        not null,
    subject     text        not null,
    body        text        not null,
    sender_name text,
    reply_to    text,
    headers     jsonb       not null default '{}',
    state       text        not null default 'queued'
        check (state in ('queued', 'processing', 'processed', 'failed', 'cancelled')),
    created_at  timestamptz not null default now()
);

-- For the reconciliation: mails that should have a lifecycle.
create index if not exists mailing_queued on mailing (id) where state = 'queued';
