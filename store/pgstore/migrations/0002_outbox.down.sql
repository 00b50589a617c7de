drop table {schema}.outbox_relays;
drop table {schema}.outbox_slots;
drop table {schema}.outbox_waiting;
drop table {schema}.outbox;
