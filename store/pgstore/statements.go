package pgstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// statements are the texts that are sent often. They differ only by schema, so that a
// server prepares each of them once per connection.
type statements struct {
	begin string

	markTimed, markPlain string
	markMany             map[manyKind]string
	lookTimed, lookPlain string
	parked               string
	moveFence            string

	// lockTimeout is an argument of the marking statements: milliseconds as text.
	lockTimeout string
}

// The limit on lock waits travels inside the marking statement: the row cannot be made
// before set_config has run, so the wait for a rival is bounded, and no statement of its
// own is spent. It is local to the transaction. For a single row it stands in an
// expression, because a function in FROM costs an executor node.
//
// So does the question whether marks of that time have been removed: the scope is null then, which
// the column refuses. The answer is that of the statement's snapshot, and removal waits for every
// snapshot that is older than its announcement (see purge.go).
//
// Conflicts are left to ON CONFLICT alone. Looking first would cost every new message a
// look and pays only where far more than half of the messages are duplicates.
const (
	markTimed = `insert into {schema}.marks_timed (scope, key)
values (case when {limits} and $4::bigint >= ({purged}) then $1::int end, $2::uuid)
on conflict do nothing`

	markPlain = `insert into {schema}.marks_plain (scope, key, at)
values (case when {limits} and $4::bigint >= ({purged}) then $1::int end, $2::uuid, coalesce($5::timestamptz, now()))
on conflict do nothing`

	purged = `select purged_ms from {schema}.scopes where id = $1`

	lookTimed = `select key, fingerprint from {schema}.marks_timed where scope = $1 and key = any($2::uuid[])`
	lookPlain = `select key, fingerprint from {schema}.marks_plain where scope = $1 and key = any($2::uuid[])`

	parked = `select order_id from {schema}.parked_keys where scope = $1 and order_id = any($2::uuid[]) order by order_id for share`

	moveFence = `insert into {schema}.fences as f (scope, log, partition, position, previous, record, epoch)
values (case when set_config('lock_timeout', $7, true) <> ''{more} then $1::int end, $2, $3, $4, -1, $5, $6)
on conflict (scope, log, partition) do update set position = excluded.position, previous = f.position, record = excluded.record
where f.position < excluded.position and f.epoch = excluded.epoch
returning previous`
)

// manyKind is which of the statements that set many marks of one scope.
type manyKind struct{ timed, print, careful bool }

// markManySQL has the arguments scope, keys, limit on lock waits, least time of the keys (careful:
// the time of each), then the messages' times in the table that has them, then the fingerprints.
func markManySQL(k manyKind) string {
	table, columns, values, from, names := "marks_timed", "scope, key", "m.key", "$2::uuid[]", "key"
	next := 5
	argument := func(kind, name string) {
		from += ", $" + strconv.Itoa(next) + "::" + kind + "[]"
		names += ", " + name
		next++
	}
	scope, where := "case when $4::bigint >= ("+purged+") then $1::int end", ""
	if k.careful {
		scope, where = "$1::int", "where m.ms >= ("+purged+")\n"
		from, names = from+", $4::bigint[]", names+", ms"
	}
	if !k.timed {
		table, columns, values = "marks_plain", columns+", at", values+", coalesce(m.at, now())"
		argument("timestamptz", "at")
	}
	if k.print {
		columns, values = columns+", fingerprint", values+", m.print"
		argument("uuid", "print")
	}
	return "insert into {schema}." + table + " (" + columns + ")\n" +
		"select " + scope + ", " + values + "\n" +
		"from set_config('lock_timeout', $3, true){moreFrom}, unnest(" + from + ") as m (" + names + ")\n" +
		where + "on conflict do nothing returning key"
}

func newStatements(c config) statements {
	more, moreFrom := moreLimits(c)
	in := strings.NewReplacer("{purged}", strings.ReplaceAll(purged, "{schema}", quote(c.schema)), "{schema}", quote(c.schema),
		"{limits}", "set_config('lock_timeout', $3, true) <> ''"+more, "{more}", more, "{moreFrom}", moreFrom).Replace
	many := make(map[manyKind]string, 8)
	for i := range 8 {
		k := manyKind{timed: i&1 != 0, print: i&2 != 0, careful: i&4 != 0}
		many[k] = in(markManySQL(k))
	}
	return statements{
		begin:       beginSQL(c.isolation),
		markTimed:   in(markTimed),
		markPlain:   in(markPlain),
		markMany:    many,
		lookTimed:   in(lookTimed),
		lookPlain:   in(lookPlain),
		parked:      in(parked),
		moveFence:   in(moveFence),
		lockTimeout: strconv.FormatInt(c.lockWait.Milliseconds(), 10),
	}
}

// moreLimits are those that are set only if they were asked for.
func moreLimits(c config) (condition, from string) {
	for _, limit := range []struct {
		name  string
		limit time.Duration
	}{{"statement_timeout", c.statementLimit}, {"idle_in_transaction_session_timeout", c.idleLimit}} {
		if limit.limit > 0 {
			set := "set_config('" + limit.name + "', '" + strconv.FormatInt(limit.limit.Milliseconds(), 10) + "', true)"
			condition += " and " + set + " <> ''"
			from += ", " + set + " as " + limit.name
		}
	}
	return condition, from
}

func beginSQL(level pgx.TxIsoLevel) string {
	if level == "" {
		return "begin"
	}
	return "begin isolation level " + string(level)
}
