package pgsql

const (
	// MoveFence moves a position forward and returns what it was, or no row where it did not move:
	// scope, log, partition, offset, record, epoch, limit on lock waits in milliseconds as text. The
	// text ends with the list of what it returns.
	MoveFence = `insert into {schema}.fences as f (scope, log, partition, position, previous, record, epoch)
values (case when set_config('lock_timeout', $7, true) <> ''{more} then $1::int end, $2, $3, $4, -1, $5::uuid, $6)
on conflict (scope, log, partition) do update set position = excluded.position, previous = f.position, record = excluded.record
where f.position < excluded.position and f.epoch = excluded.epoch
returning previous`

	// ReadFence reads position, record and epoch: scope, log, partition.
	ReadFence = `select position, record, epoch from {schema}.fences where scope = $1 and log = $2 and partition = $3`

	// RestartFence begins an epoch and returns it, or no row where the position is not the expected
	// one: scope, log, partition, offset, new epoch, expected epoch, expected offset. Where there is none
	// yet, that before the first message is expected.
	RestartFence = `insert into {schema}.fences as f (scope, log, partition, position, previous, record, epoch)
select $1::int, $2::bytea, $3::int, $4::bigint, $4::bigint, null, $5::bigint
where $6::bigint = 0 and $7::bigint = -1 or exists (select from {schema}.fences where scope = $1::int and log = $2::bytea and partition = $3::int)
on conflict (scope, log, partition) do update set position = $4::bigint, previous = f.position, record = null, epoch = $5::bigint
where f.epoch = $6::bigint and f.position = $7::bigint
returning epoch`
)
