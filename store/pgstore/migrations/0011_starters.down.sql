alter table {schema}.attempts drop column starter;
