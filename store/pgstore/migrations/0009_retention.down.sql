drop index {schema}.marks_plain_scope_at;
create index marks_plain_at on {schema}.marks_plain (at);
drop table {schema}.reaches;
alter table {schema}.scopes
    drop column keep_ms, drop column purged_ms, drop column purged_xid, drop column safe_ms;
