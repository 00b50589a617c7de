-- What would be forgotten with a transaction that is rolled back, or with a process that dies: how
-- often a message has failed, and how often it was begun under suspicion of ending its process.
-- Only messages that gave reason to are here.
create table {schema}.attempts (
    scope  integer     not null,
    key    uuid        not null,
    timed  boolean     not null,
    spent  integer     not null default 0,
    starts integer     not null default 0,
    at     timestamptz not null default now(),
    primary key (scope, key, timed)
) with (fillfactor = 80);

-- For removal, oldest first.
create index attempts_at on {schema}.attempts (at);

-- Who works on a partition. Nothing here is removed: it is a row for each partition there ever was.
create table {schema}.tenures (
    scope     integer     not null,
    log       bytea       not null,
    partition integer     not null,
    owner     text        not null,
    -- The owner has left in order.
    has_left  boolean     not null,
    -- The one before the owner had. It is noted because an update cannot return what it overwrites.
    orderly   boolean     not null,
    since     timestamptz not null default now(),
    primary key (scope, log, partition)
) with (fillfactor = 50);
