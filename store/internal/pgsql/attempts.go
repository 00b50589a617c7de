package pgsql

const (
	// Spend counts up and returns the number: scope, key, whether it is timed.
	Spend = `insert into {schema}.attempts as a (scope, key, timed, spent) values ($1, $2::uuid, $3, 1)
on conflict (scope, key, timed) do update set spent = a.spent + 1, starts = 0, starter = null, at = now()
returning spent`

	// Start counts up, unless the last start is the starter's own, and returns both numbers: scope, key,
	// whether it is timed, starter. Survive takes that start back: the same.
	Start = `insert into {schema}.attempts as a (scope, key, timed, starts, starter) values ($1, $2::uuid, $3, 1, $4)
on conflict (scope, key, timed) do update
set starts = a.starts + case when a.starter = excluded.starter then 0 else 1 end, starter = excluded.starter, at = now()
returning spent, starts`
	Survive = `update {schema}.attempts set starts = starts - 1, starter = null
where scope = $1 and key = $2::uuid and timed = $3 and starter = $4`

	// Forget removes the counts: scope, key, whether it is timed.
	Forget = `delete from {schema}.attempts where scope = $1 and key = $2::uuid and timed = $3`

	// Enter notes who works on a partition and returns whether the one before has left in order: scope,
	// log, partition, owner. Leave notes that: the same.
	Enter = `insert into {schema}.tenures as t (scope, log, partition, owner, has_left, orderly) values ($1, $2, $3, $4, false, true)
on conflict (scope, log, partition) do update
set owner = excluded.owner, has_left = false, orderly = t.has_left or t.owner = excluded.owner, since = now()
returning orderly`
	Leave = `update {schema}.tenures set has_left = true where scope = $1 and log = $2 and partition = $3 and owner = $4`

	// Reached notes how far partitions are: scope, logs, partitions, times, as [ReachOrder] leaves them.
	// It ignores what is later than the server's clock: one message that a producer has dated to
	// the year 3000 must not carry off the marks of the others. A minute is granted, and cut off,
	// because the clocks of brokers and servers differ: a consumer that is never behind by
	// more than its broker's clock is ahead would never be heard otherwise. A time that is null is
	// the server's clock, which least takes when it is the only one.
	Reached = `insert into {schema}.reaches as r (scope, log, partition, newest)
select $1::int, m.log, m.partition, least(m.newest, now())
from unnest($2::bytea[], $3::int[], $4::timestamptz[]) as m (log, partition, newest)
where m.newest is null or m.newest <= now() + interval '1 minute'
on conflict (scope, log, partition) do update set newest = excluded.newest, noted_at = now()
where r.newest < excluded.newest`
)
