drop table {schema}.dead_letters;
