drop table {schema}.parked_keys;
drop index {schema}.dead_letters_order;
alter table {schema}.dead_letters drop column state, drop column ordering, drop column order_id;
