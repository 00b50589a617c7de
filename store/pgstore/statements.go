package pgstore

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the texts that are sent often. They differ only by schema, so that a
// server prepares each of them once per connection.
type statements struct {
	begin string

	markTimed, markPlain         string
	markTimedMany, markPlainMany string

	// lockTimeout is an argument of the marking statements: milliseconds as text.
	lockTimeout string
}

// The limit on lock waits travels inside the marking statement: the row cannot be made
// before set_config has run, so the wait for a rival is bounded, and no statement of its
// own is spent. It is local to the transaction. For a single row it stands in an
// expression, because a function in FROM costs an executor node.
//
// Conflicts are left to ON CONFLICT alone. Looking first would cost every new message a
// look and pays only where far more than half of the messages are duplicates.
const (
	markTimed = `insert into {schema}.marks_timed (scope, key)
values (case when set_config('lock_timeout', $3, true) <> '' then $1::int end, $2::uuid)
on conflict do nothing`

	markPlain = `insert into {schema}.marks_plain (scope, key, at)
values (case when set_config('lock_timeout', $3, true) <> '' then $1::int end, $2::uuid, coalesce($4::timestamptz, now()))
on conflict do nothing`

	markTimedMany = `insert into {schema}.marks_timed (scope, key)
select $1::int, m.key from set_config('lock_timeout', $3, true), unnest($2::uuid[]) as m (key)
on conflict do nothing returning key`

	markPlainMany = `insert into {schema}.marks_plain (scope, key, at)
select $1::int, m.key, coalesce(m.at, now()) from set_config('lock_timeout', $3, true), unnest($2::uuid[], $4::timestamptz[]) as m (key, at)
on conflict do nothing returning key`
)

func newStatements(c config) statements {
	in := func(sql string) string { return strings.ReplaceAll(sql, "{schema}", quote(c.schema)) }
	return statements{
		begin:         beginSQL(c.isolation),
		markTimed:     in(markTimed),
		markPlain:     in(markPlain),
		markTimedMany: in(markTimedMany),
		markPlainMany: in(markPlainMany),
		lockTimeout:   strconv.FormatInt(c.lockWait.Milliseconds(), 10),
	}
}

func beginSQL(level pgx.TxIsoLevel) string {
	if level == "" {
		return "begin"
	}
	return "begin isolation level " + string(level)
}
