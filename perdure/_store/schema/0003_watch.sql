-- Where the watch for workflows that were ended past perdure is: one row, so that one worker of the fleet looks at a time.
create table perdure.watch (
    one          boolean     primary key default true check (one),
    looked_at    timestamptz,                                -- when a worker took its turn
    closed_since timestamptz,                                -- what had closed before that was looked at
    lifecycle    text        not null default '' collate "C", -- the last open entity that was compared with Temporal
    id           text        not null default '' collate "C"
);

insert into perdure.watch default values;
