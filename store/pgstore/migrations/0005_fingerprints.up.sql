-- A digest of the content that has to be the same whenever the key is. Most marks have none, and
-- then it takes no room.
alter table {schema}.marks_timed add column fingerprint uuid;
alter table {schema}.marks_plain add column fingerprint uuid;
