package pgsql

const (
	// Bury writes one letter and, where it is dead and has an ordering key, parks the key: name of the
	// consumer, key, whether it is timed, its text, broker, topic, log, partition, offset, time, message
	// key, names of the headers, their values, body, reason, attempts, state, ordering key, its
	// digest.
	//
	// The scope is found by its name, which whoever marked in this transaction has interned;
	// were it not there, NULL would make the statement fail, where a select that finds nothing
	// would lose the letter and commit its mark. A key that is parked already is held all the same, until the
	// end: whoever revives its last letter at this moment would release it. A message that goes behind a
	// parked key holds it already; above READ COMMITTED it also changes it, because who waited for a mere
	// hold would not see the letter, and so is refused (40001).
	Bury = `with parked as (
  insert into {schema}.parked_keys as p (scope, order_id)
  select id, $19::uuid from {schema}.scopes where name = $1 and $17 = 0 and $19::uuid is not null
  on conflict (scope, order_id) do update set since = p.since
), touched as (
  update {schema}.parked_keys p set since = p.since from {schema}.scopes c
  where c.name = $1 and p.scope = c.id and p.order_id = $19::uuid and $17 = 1 and current_setting('transaction_isolation') <> 'read committed'
)
insert into {schema}.dead_letters (scope, key, timed, key_text, broker, topic, log, partition, position, at,
  message_key, header_keys, header_values, body, reason, attempts, state, ordering, order_id)
values ((select id from {schema}.scopes where name = $1), $2::uuid, $3, $4, $5, $6, $7, $8, $9, $10::timestamptz,
  $11, $12::bytea[], $13::bytea[], $14, $15, $16, $17, $18, $19::uuid)`

	selectDead = `select d.id, s.name, d.key, d.timed, d.key_text, d.state, d.ordering, d.broker, d.topic, d.log, d.partition, d.position, d.at,
  d.message_key, d.header_keys, d.header_values, d.body, d.reason, d.attempts, d.buried_at
from {schema}.dead_letters d join {schema}.scopes s on s.id = d.scope
`

	// ListDead reads letters with the names of their consumers: least id, less one; consumer or
	// ''; digest of the ordering key or null; states or null; first and last id or 0; since and until
	// or null; at most how many.
	ListDead = selectDead + `where d.id > $1 and ($2 = '' or s.name = $2) and ($3::uuid is null or d.order_id = $3::uuid)
  and ($4::smallint[] is null or d.state = any($4::smallint[]))
  and ($5::bigint = 0 or d.id >= $5::bigint) and ($6::bigint = 0 or d.id <= $6::bigint)
  and ($7::timestamptz is null or d.buried_at >= $7::timestamptz) and ($8::timestamptz is null or d.buried_at < $8::timestamptz)
order by d.id limit $9`

	// GetDead reads one letter, LockDead also holds it: id.
	GetDead  = selectDead + `where d.id = $1`
	LockDead = selectDead + `where d.id = $1 for update of d`

	// RemoveDead removes one letter and returns its scope: id. The text ends with the list of what
	// it returns.
	RemoveDead = `delete from {schema}.dead_letters where id = $1 returning scope`

	// HoldKeys holds ordering keys before [ReleaseKeys]: a message that goes behind one at this
	// moment has to be seen. Scopes, digests.
	HoldKeys = `select from {schema}.parked_keys
where (scope, order_id) in (select * from unnest($1::int[], $2::uuid[])) order by scope, order_id for update`

	// ReleaseKeys ends the parking of those ordering keys of which no letter is left: scopes, digests.
	ReleaseKeys = `delete from {schema}.parked_keys p
where (scope, order_id) in (select * from unnest($1::int[], $2::uuid[])) and not exists (
  select from {schema}.dead_letters d where d.scope = p.scope and d.order_id = p.order_id and d.state < 2)`

	// IsBehind asks whether an ordering key has an earlier letter: scope, digest, id.
	IsBehind = `select exists (select from {schema}.dead_letters where scope = $1 and order_id = $2::uuid and state < 2 and id < $3)`

	// FailDead notes a failure: id, reason.
	FailDead = `update {schema}.dead_letters set attempts = attempts + 1, reason = $2 where id = $1`

	// DiscardDead removes letters and returns the ordering keys that may have become free: ids.
	DiscardDead = `delete from {schema}.dead_letters where id = any($1::bigint[]) returning scope, case when state < 2 then order_id end`

	// ParkedKeys reads consumer, ordering key, id and reason of the head, since when, and how many
	// wait: consumer or '', at most how many.
	ParkedKeys = `select s.name, h.ordering, h.id, h.reason, p.since, w.n
from {schema}.parked_keys p
join {schema}.scopes s on s.id = p.scope
cross join lateral (
  select d.id, d.ordering, d.reason from {schema}.dead_letters d
  where d.scope = p.scope and d.order_id = p.order_id and d.state < 2 order by d.id limit 1) h
cross join lateral (
  select count(*) - 1 as n from {schema}.dead_letters d
  where d.scope = p.scope and d.order_id = p.order_id and d.state < 2) w
where $1 = '' or s.name = $1
order by p.since, h.id limit $2`

	// LimitWaits sets the limits for a transaction that sets no marks: that on lock waits, in milliseconds as text.
	LimitWaits = `select set_config('lock_timeout', $1, true){moreFrom}`
)
