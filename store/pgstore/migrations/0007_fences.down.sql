drop table {schema}.fences;
