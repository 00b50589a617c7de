-- Events that flow: written in the transaction of the business change, read and deleted
-- by the relay that owns their slot. The columns are named as the outbox event router of
-- Debezium expects them (aggregatetype is the topic, aggregateid the ordering key).
create table {schema}.outbox (
    -- The hash of destination and key, or of the id where there is no key: what relays
    -- divide among themselves, so that no row needs a claim of its own.
    slot          smallint    not null check (slot between 0 and 63),
    -- Order within a key. Do not give its sequence a cache: relays rely on a number that
    -- was handed out earlier being the smaller one.
    seq           bigint      generated always as identity,
    id            uuid        not null,
    destination   text        not null,
    aggregatetype text        not null,
    aggregateid   bytea,
    type          text        not null,
    payload       bytea,
    -- Names and values may hold any bytes, and many events travel as one array per column,
    -- so the headers are one value: per header the length of the name, the name, the
    -- length of the value plus one (zero is no value) and the value; lengths as varints.
    headers       bytea,
    created_at    timestamptz not null default now(),
    -- The only index, so that writers pay for no other. It is the relays' reading order.
    primary key (slot, seq)
) with (
    -- Every row is soon dead. Vacuum follows the number of rows deleted, not the size of
    -- a table that is meant to be empty.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000
);

-- Events that cannot go now. They lie apart so that what flows never walks over them.
create table {schema}.outbox_waiting (
    slot          smallint    not null,
    seq           bigint      not null,
    id            uuid        not null,
    destination   text        not null,
    aggregatetype text        not null,
    aggregateid   bytea,
    type          text        not null,
    payload       bytea,
    headers       bytea,
    created_at    timestamptz not null,
    -- retry:  refused; tried again when due. The first of its key.
    -- behind: an earlier event of its key waits.
    -- held:   its topic cannot be reached, or is slower than its events come.
    -- parked: given up until a person retries or discards it. Its key waits behind it.
    state         text        not null check (state in ('retry', 'behind', 'held', 'parked')),
    -- How often the destination refused it.
    attempts      integer     not null,
    -- How often it was begun by a relay of which nothing was heard again.
    starts        integer     not null,
    due           timestamptz not null,
    reason        text        not null,
    -- Since when it waits, and when its state last changed.
    waiting_since timestamptz not null default now(),
    changed_at    timestamptz not null default now(),
    primary key (slot, seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- What is due. Only retries have a time, so a backlog of another kind is not in the way.
create index outbox_waiting_due on {schema}.outbox_waiting (slot, due, seq) where state = 'retry';

-- The backlog of one topic in its order, for when it can be reached again.
create index outbox_waiting_held on {schema}.outbox_waiting (slot, destination, aggregatetype, seq) where state = 'held';

-- What waits behind the first event of a key, in order.
create index outbox_waiting_key on {schema}.outbox_waiting (slot, destination, aggregateid, seq) where aggregateid is not null;

-- Who owns which slot. The token grows with every change of owner; whatever an owner
-- writes compares it, so an owner that was replaced changes nothing. All times are the
-- server's.
create table {schema}.outbox_slots (
    slot    smallint    primary key,
    owner   text,
    token   bigint      not null default 0,
    until   timestamptz not null default '-infinity',
    -- The last owner gave the slot back. Otherwise it may have died of one of its rows.
    clean   boolean     not null default true,
    -- Grows when a person changes waiting events behind the owner's back.
    changed bigint      not null default 0
) with (fillfactor = 50);

insert into {schema}.outbox_slots (slot) select generate_series(0, 63);

-- Which relays live, so that each can reckon its fair share.
create table {schema}.outbox_relays (
    name  text        primary key,
    until timestamptz not null
) with (fillfactor = 50);
