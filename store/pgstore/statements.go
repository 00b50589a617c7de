package pgstore

import (
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store/internal/pgsql"
)

// statements are the texts that are sent often. They differ only by schema, so that a
// server prepares each of them once per connection.
type statements struct {
	begin string

	markTimed, markPlain string
	markMany             map[pgsql.Kind]string
	lookTimed, lookPlain string
	parked               string
	moveFence            string
	limitWaits           string

	// lockTimeout is an argument of the marking statements: milliseconds as text.
	lockTimeout string
}

func newStatements(c config) statements {
	limits := pgsql.Limits{Statement: c.statementLimit, Idle: c.idleLimit}
	in := func(text string) string { return limits.In(quote(c.schema), text) }
	many := make(map[pgsql.Kind]string, 8)
	for i := range 8 {
		k := pgsql.Kind{Timed: i&1 != 0, Print: i&2 != 0, Careful: i&4 != 0}
		many[k] = in(pgsql.MarkMany(k))
	}
	return statements{
		begin:       beginSQL(c.isolation),
		markTimed:   in(pgsql.MarkTimed),
		markPlain:   in(pgsql.MarkPlain),
		markMany:    many,
		lookTimed:   in(pgsql.LookTimed),
		lookPlain:   in(pgsql.LookPlain),
		parked:      in(pgsql.Parked),
		moveFence:   in(pgsql.MoveFence),
		limitWaits:  in(pgsql.LimitWaits),
		lockTimeout: strconv.FormatInt(c.lockWait.Milliseconds(), 10),
	}
}

func beginSQL(level pgx.TxIsoLevel) string {
	if level == "" {
		return "begin"
	}
	return "begin isolation level " + string(level)
}
