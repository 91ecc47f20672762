-- The web app's own table, as any web app could have it. Perdure only ever writes `notification_state`.
create table if not exists comment (
    id                 bigint generated always as identity primary key,
    post_id            bigint      not null,
    author             text        not null,
    body               text        not null,
    recipient          text        not null,
    notification_state text        not null default 'pending'
        check (notification_state in ('pending', 'sending', 'sent', 'error', 'cancelled')),
    created_at         timestamptz not null default now()
);

-- For the reconciliation: comments that should have a lifecycle.
create index if not exists comment_pending on comment (id) where notification_state = 'pending';
