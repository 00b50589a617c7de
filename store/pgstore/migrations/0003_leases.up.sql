-- Work that one holder at a time may do, and its answer. The key is a SHA-256.
create table {schema}.leases (
    key         bytea       primary key check (length(key) = 32),
    -- Grows with every change of holder; a holder that was overtaken has a smaller one.
    token       bigint      not null,
    -- Held: until when the holder has it. Done: until when the answer is kept.
    until       timestamptz not null,
    -- Held: until when the fingerprint binds a claim that finds the holder's time over.
    keep_until  timestamptz not null,
    done        boolean     not null default false,
    -- Given back undone. The row stays, so that its token goes on growing.
    released    boolean     not null default false,
    -- The holder got it from one whose time had run out.
    overtaken   boolean     not null default false,
    fingerprint bytea,
    result      bytea
);

-- For removal of what has expired.
create index leases_until on {schema}.leases (until);
