alter table {schema}.outbox
    alter column destination type text collate "default",
    alter column aggregatetype type text collate "default";
alter table {schema}.outbox_waiting
    alter column destination type text collate "default",
    alter column aggregatetype type text collate "default";
alter table {schema}.outbox_relays alter column name type text collate "default";
alter table {schema}.mark_partitions alter column name type text collate "default";
alter table {schema}.scopes alter column name type text collate "default";
