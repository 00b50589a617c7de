-- How long a consumer wants its marks kept (null: for ever), and what has become of the older ones.
-- Times are milliseconds since 1970.
alter table {schema}.scopes
    add column keep_ms    bigint,
    -- Announced: a message of before then is not run, because its mark may be gone.
    add column purged_ms  bigint not null default -9223372036854775808,
    -- The transaction that announced it.
    add column purged_xid xid8,
    -- No statement is alive that has not seen the announcement up to here: marks of before then
    -- may be removed, and nothing later.
    add column safe_ms    bigint not null default -9223372036854775808,
    add constraint scopes_safe check (safe_ms <= purged_ms);

-- How far a consumer has come in each partition, in the time of its messages. What is removed
-- follows the one that is furthest behind.
create table {schema}.reaches (
    scope     integer     not null,
    log       bytea       not null,
    partition integer     not null,
    newest    timestamptz not null,
    noted_at  timestamptz not null default now(),
    primary key (scope, log, partition)
) with (fillfactor = 50);

-- For removal of one consumer's marks, oldest first. An index on the time alone would lead
-- over the old marks of every consumer that keeps its own for ever.
drop index {schema}.marks_plain_at;
create index marks_plain_scope_at on {schema}.marks_plain (scope, at);
