create table stock (
    sku     text   primary key,
    on_hand bigint not null
);

create table reservations (
    id       bigint primary key generated always as identity,
    order_id text   not null,
    sku      text   not null,
    quantity bigint not null
);
