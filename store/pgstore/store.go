package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
)

// Store keeps marks, leases, dead letters and the outbox in PostgreSQL. It is safe for
// concurrent use and holds nothing but the pool, which stays the caller's to close.
type Store struct {
	pool   *pgxpool.Pool
	config config
	schema string // quoted
	sql    statements
	scopes sync.Map // name → store.Scope
}

var (
	_ store.Marks[pgx.Tx]    = (*Store)(nil)
	_ store.TxMarker[pgx.Tx] = (*Store)(nil)
	_ store.Burier[pgx.Tx]   = (*Store)(nil)
	_ store.DeadLetters      = (*Store)(nil)
	_ store.Leases           = (*Store)(nil)
)

// New returns a store that works through the pool. It does not connect; the first call of
// [Store.Scope] does, and reports a database that is missing or not migrated.
func New(pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	if pool == nil {
		return nil, errors.New("pgstore: the pool is nil: make one with pgxpool.New")
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return &Store{pool: pool, config: c, schema: quote(c.schema), sql: newStatements(c)}, nil
}

// acquire takes a connection within the limit.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.config.acquireWait, errNoConnection)
	defer cancel()
	conn, err := s.pool.Acquire(limited)
	if err != nil && context.Cause(limited) == errNoConnection {
		return nil, fmt.Errorf("%w within %s (pool of %d, %d in use): %w",
			errNoConnection, s.config.acquireWait, s.pool.Config().MaxConns, s.pool.Stat().AcquiredConns(), err)
	}
	return conn, err
}
