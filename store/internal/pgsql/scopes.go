package pgsql

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// Scopes are interned by looking before inserting: an insert that conflicts uses up a number of
// the sequence, and the name is nearly always there.
const (
	// TablesVersion reads the version of the tables.
	TablesVersion = `select coalesce(max(version), 0) from {schema}.migrations`

	// FindScope reads the scope of a name, and whether it keeps marks as long: name, milliseconds or null.
	FindScope = `select id, keep_ms is not distinct from $2::bigint from {schema}.scopes where name = $1`

	// KeepScope changes how long a scope keeps its marks: scope, milliseconds or null.
	KeepScope = `update {schema}.scopes set keep_ms = $2::bigint where id = $1`

	// AddScope adds a name, unless somebody else has: name, milliseconds or null.
	AddScope = `insert into {schema}.scopes (name, keep_ms) values ($1, $2::bigint) on conflict (name) do nothing`
)

// ScopeQuestion is what a store is asked for by Scope. The answer to one is remembered.
type ScopeQuestion struct {
	Consumer string
	Keep     time.Duration
}

// Check refuses what no scope can be given for.
func (q ScopeQuestion) Check() error {
	if err := store.CheckConsumer(q.Consumer); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	if q.Keep < time.Millisecond {
		return fmt.Errorf("scope of consumer %q: marks kept for %s: a millisecond is the least", q.Consumer, q.Keep)
	}
	return nil
}

// CheckVersion refuses tables that are older than what works on them.
func CheckVersion(schema string, version, needed int) error {
	if version < needed {
		return fmt.Errorf("schema %s is at version %d and this package needs %d", schema, version, needed)
	}
	return nil
}
