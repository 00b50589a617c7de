-- Whose the last start is: it counts once however often it is repeated, and is taken back by nobody else. Null
-- where it was taken back.
alter table {schema}.attempts add column starter text;
