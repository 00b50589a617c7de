drop table {schema}.mark_partitions;
drop table {schema}.marks_plain;
drop table {schema}.marks_timed;
drop table {schema}.scopes;
