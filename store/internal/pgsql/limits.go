package pgsql

import (
	"strconv"
	"strings"
	"time"
)

// Limits are set by the statements that mark, for the rest of their transaction. The one on lock waits is
// an argument of theirs; these are part of the text, and set only if they are above zero.
type Limits struct{ Statement, Idle time.Duration }

// In puts a schema, quoted as [Quote] does it, into a text.
func In(schema, text string) string { return Limits{}.In(schema, text) }

// In puts a schema, quoted as [Quote] does it, and the limits into a text.
func (l Limits) In(schema, text string) string {
	more, moreFrom := l.texts()
	return strings.NewReplacer("{purged}", strings.ReplaceAll(Purged, "{schema}", schema), "{schema}", schema,
		"{more}", more, "{moreFrom}", moreFrom).Replace(text)
}

func (l Limits) texts() (condition, from string) {
	for _, limit := range []struct {
		name  string
		limit time.Duration
	}{{"statement_timeout", l.Statement}, {"idle_in_transaction_session_timeout", l.Idle}} {
		if limit.limit > 0 {
			set := "set_config('" + limit.name + "', '" + strconv.FormatInt(limit.limit.Milliseconds(), 10) + "', true)"
			condition += " and " + set + " <> ''"
			from += ", " + set + " as " + limit.name
		}
	}
	return condition, from
}
