-- Somebody else's application, which hears of payments by webhook, Kafka and NATS and keeps
-- sums of its own.
create table accounts (
    id      integer primary key,
    balance bigint  not null default 0  -- in cents
);

-- As in the bank, a receipt that is counted twice must be seen here.
create table receipts (
    payment text    not null,
    via     text    not null,
    account integer not null,
    cents   bigint  not null
);
