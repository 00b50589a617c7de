drop table {schema}.tenures;
drop table {schema}.attempts;
