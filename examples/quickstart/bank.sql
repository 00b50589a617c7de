-- The bank. One transaction per payment touches both tables.
create table accounts (
    id      integer primary key,
    balance bigint  not null default 0  -- in cents
);

-- No unique constraint on payment, on purpose: a payment that is booked twice must be
-- seen here, not refused here.
create table bookings (
    payment text    not null,
    account integer not null,
    cents   bigint  not null
);
