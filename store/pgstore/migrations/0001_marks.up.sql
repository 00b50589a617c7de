-- Who consumes. The name is interned so that a mark is 4 + 16 bytes and its index stays
-- small: measured, that is 1.4 times the rate of two text columns.
create table {schema}.scopes (
    id   integer generated always as identity primary key,
    name text not null unique
);

-- What was done and has a time in its key: the first 48 bits are milliseconds. The key is
-- the partition column, so uniqueness holds across the whole table, the index that is
-- being written is the newest and small, and old marks go by dropping a partition.
create table {schema}.marks_timed (
    scope integer not null,
    key   uuid    not null,
    primary key (scope, key)
) partition by range (key);

-- Takes whatever no partition covers: times that are absurd, and all of them if nobody
-- makes new partitions. Nothing is wrong then, only slower to remove.
create table {schema}.marks_timed_rest partition of {schema}.marks_timed default;

-- What was done and has no time in its key (version 4 ids, business keys): a digest. It
-- is not partitioned, because the only column to do it by would be a time of arrival,
-- and then the same key would pass twice.
create table {schema}.marks_plain (
    scope integer     not null,
    key   uuid        not null,
    -- The message's own time, or the server's where it has none: what removal goes by.
    at    timestamptz not null,
    primary key (scope, key)
);

-- For removal in small steps, oldest first. Rows arrive nearly in this order, so the
-- index is written at its right edge and costs little.
create index marks_plain_at on {schema}.marks_plain (at);

-- The partitions of marks_timed and their bounds in milliseconds since 1970, so that
-- making new ones and dropping old ones need not read them out of the catalog's text.
create table {schema}.mark_partitions (
    name    text   primary key,
    from_ms bigint not null,
    to_ms   bigint not null check (to_ms > from_ms)
);
