drop table {schema}.leases;
