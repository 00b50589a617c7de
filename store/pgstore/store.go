package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	scopes sync.Map // pgsql.ScopeQuestion → store.Scope
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

// acquire takes a connection within the limit. A pool that was closed gives none, which must not
// look like the fault of the message.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.config.acquireWait, errNoConnection)
	defer cancel()
	conn, err := s.pool.Acquire(limited)
	switch {
	case err == nil:
		return conn, nil
	case context.Cause(limited) == errNoConnection:
		return nil, fmt.Errorf("%w within %s (pool of %d, %d in use): %w",
			errNoConnection, s.config.acquireWait, s.pool.Config().MaxConns, s.pool.Stat().AcquiredConns(), err)
	case ctx.Err() != nil:
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", errNoPool, err)
	}
}

// exec runs a statement on a connection that it waits for within the limit.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer conn.Release()
	return conn.Exec(ctx, sql, args...)
}

// scanRow reads the one row of a query on a connection that it waits for within the limit.
func (s *Store) scanRow(ctx context.Context, dest []any, sql string, args ...any) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return conn.QueryRow(ctx, sql, args...).Scan(dest...)
}
