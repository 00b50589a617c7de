-- Messages that were given up, written in the transaction that holds their mark.
create table {schema}.dead_letters (
    id          bigint      generated always as identity primary key,
    scope       integer     not null,
    key         uuid        not null,
    timed       boolean     not null,
    key_text    bytea       not null,
    broker      text        not null,
    topic       bytea       not null,
    log         bytea       not null,
    partition   integer     not null,
    position    bigint      not null,
    at          timestamptz,
    message_key bytea,
    -- Names and values may hold any bytes, so the headers are two arrays and not JSON.
    header_keys   bytea[]   not null,
    header_values bytea[]   not null,
    body        bytea,
    reason      text        not null,
    attempts    integer     not null,
    buried_at   timestamptz not null default now()
);

-- For listing the letters of one consumer in their order.
create index dead_letters_scope on {schema}.dead_letters (scope, id);
