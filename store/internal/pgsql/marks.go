package pgsql

import "strconv"

// The limit on lock waits travels inside the marking statement: the row cannot be made
// before set_config has run, so the wait for a rival is bounded, and no statement of its
// own is spent. It is local to the transaction. For a single row it stands in an
// expression, because a function in FROM costs an executor node.
//
// So does the question whether marks of that time have been removed: the scope is null then, which
// the column refuses. The answer is that of the statement's snapshot, and removal waits for every
// snapshot that is older than its announcement.
//
// Conflicts are left to ON CONFLICT alone. Looking first would cost every new message a
// look and pays only where far more than half of the messages are duplicates.
const (
	// MarkTimed sets one mark that has a time in its key: scope, key, limit on lock waits in
	// milliseconds as text, the mark's own time in milliseconds.
	MarkTimed = `insert into {schema}.marks_timed (scope, key)
values (case when set_config('lock_timeout', $3, true) <> ''{more} and $4::bigint >= ({purged}) then $1::int end, $2::uuid)
on conflict do nothing`

	// MarkPlain sets one mark of the others: as [MarkTimed], and the message's time or null.
	MarkPlain = `insert into {schema}.marks_plain (scope, key, at)
values (case when set_config('lock_timeout', $3, true) <> ''{more} and $4::bigint >= ({purged}) then $1::int end, $2::uuid, coalesce($5::timestamptz, now()))
on conflict do nothing`

	// Purged is the time before which marks of the scope $1 have been removed.
	Purged = `select purged_ms from {schema}.scopes where id = $1`

	// LookTimed and LookPlain read marks that are there: scope, keys.
	LookTimed = `select key, fingerprint from {schema}.marks_timed where scope = $1 and key = any($2::uuid[])`
	LookPlain = `select key, fingerprint from {schema}.marks_plain where scope = $1 and key = any($2::uuid[])`

	// Parked reads and holds those of a scope's ordering keys that are parked: scope, digests of the
	// ordering keys.
	Parked = `select order_id from {schema}.parked_keys where scope = $1 and order_id = any($2::uuid[]) order by order_id for share`
)

// Kind is which of the statements that set many marks of one scope.
type Kind struct {
	// Timed: in the table of the keys that have a time.
	Timed bool
	// Print: some have a fingerprint.
	Print bool
	// Careful: each key is judged for itself. Otherwise one whose time has been removed makes the
	// whole statement fail, which costs the others nothing.
	Careful bool
}

// MarkMany has the arguments scope, keys, limit on lock waits, least time of the keys (careful:
// the time of each), then the messages' times in the table that has them, then the fingerprints. It
// returns the keys that were set, and the text ends with the list of what it returns.
func MarkMany(k Kind) string {
	table, columns, values, from, names := "marks_timed", "scope, key", "m.key", "$2::uuid[]", "key"
	next := 5
	argument := func(kind, name string) {
		from += ", $" + strconv.Itoa(next) + "::" + kind + "[]"
		names += ", " + name
		next++
	}
	scope, where := "case when $4::bigint >= ({purged}) then $1::int end", ""
	if k.Careful {
		scope, where = "$1::int", "where m.ms >= ({purged})\n"
		from, names = from+", $4::bigint[]", names+", ms"
	}
	if !k.Timed {
		table, columns, values = "marks_plain", columns+", at", values+", coalesce(m.at, now())"
		argument("timestamptz", "at")
	}
	if k.Print {
		columns, values = columns+", fingerprint", values+", m.print"
		argument("uuid", "print")
	}
	return "insert into {schema}." + table + " (" + columns + ")\n" +
		"select " + scope + ", " + values + "\n" +
		"from set_config('lock_timeout', $3, true){moreFrom}, unnest(" + from + ") as m (" + names + ")\n" +
		where + "on conflict do nothing returning key"
}
