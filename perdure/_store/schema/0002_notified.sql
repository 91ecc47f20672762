alter table perdure.relay add column notified boolean not null default false; -- of commits that add to the outbox, if it asked for it
