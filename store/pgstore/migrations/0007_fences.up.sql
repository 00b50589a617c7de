-- How far a consumer has come in one partition of a log, for those that need no mark per message.
create table {schema}.fences (
    scope     integer not null,
    log       bytea   not null,
    partition integer not null,
    -- Everything up to here has had its effect; -1 before the first message.
    position  bigint  not null,
    -- What it was before the last change: an update cannot return what it overwrites.
    previous  bigint  not null,
    -- Tells the record at the position from another one in a log that was made again.
    record    uuid,
    -- Grows with every restart; whoever brings an older one is refused.
    epoch     bigint  not null,
    primary key (scope, log, partition)
) with (fillfactor = 50);
