-- Names are bytes. In the database's collation their order may change with the system's library,
-- and an index in the old order no longer finds what is there: a consumer would get a second scope
-- and do everything again.
alter table {schema}.scopes alter column name type text collate "C";
alter table {schema}.mark_partitions alter column name type text collate "C";
alter table {schema}.outbox_relays alter column name type text collate "C";
alter table {schema}.outbox_waiting
    alter column destination type text collate "C",
    alter column aggregatetype type text collate "C";
alter table {schema}.outbox
    alter column destination type text collate "C",
    alter column aggregatetype type text collate "C";
