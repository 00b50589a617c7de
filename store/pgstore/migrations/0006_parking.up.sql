-- Why a letter lies there: 0 given up, 1 waits behind one of its ordering key, 2 quarantined,
-- 3 has the key of another message. The ordering key is kept as it is, and as the digest by which
-- it is found.
alter table {schema}.dead_letters
    add column state    smallint not null default 0 check (state between 0 and 3),
    add column ordering bytea,
    add column order_id uuid;

-- The letters of an ordering key in their order.
create index dead_letters_order on {schema}.dead_letters (scope, order_id, id) where order_id is not null and state < 2;

-- The ordering keys whose messages go to the letters for now. A transaction that finds its key
-- here holds the row, so that nobody releases the key under it.
create table {schema}.parked_keys (
    scope    integer     not null,
    order_id uuid        not null,
    since    timestamptz not null default now(),
    primary key (scope, order_id)
);
