alter table {schema}.marks_plain drop column fingerprint;
alter table {schema}.marks_timed drop column fingerprint;
