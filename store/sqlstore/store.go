package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Store keeps marks, dead letters and the outbox's write side in PostgreSQL. It is safe for
// concurrent use and holds nothing but the [sql.DB], which stays the caller's to close.
type Store struct {
	db     *sql.DB
	config config
	schema string // quoted
	sql    statements
	scopes sync.Map // pgsql.ScopeQuestion → store.Scope
}

var (
	_ store.Marks[*sql.Tx]    = (*Store)(nil)
	_ store.TxMarker[*sql.Tx] = (*Store)(nil)
	_ store.Burier[*sql.Tx]   = (*Store)(nil)
	_ store.Reviver[*sql.Tx]  = (*Store)(nil)
	_ store.Appender[*sql.Tx] = (*Store)(nil)
	_ store.DeadLetters       = (*Store)(nil)
	_ store.Attempts          = (*Store)(nil)
	_ store.Retention         = (*Store)(nil)
)

// New returns a store that works through db. It does not connect; the first call of
// [Store.Scope] does, and reports a database that is missing or not migrated.
func New(db *sql.DB, opts ...Option) (*Store, error) {
	if db == nil {
		return nil, errors.New("sqlstore: the sql.DB is nil: make one with sql.Open")
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	s := &Store{db: db, config: c, schema: pgsql.Quote(c.schema)}
	s.sql = newStatements(c)
	return s, nil
}

// statements are the texts that are sent often.
type statements struct {
	markMany             map[pgsql.Kind]string
	lookTimed, lookPlain string
	parked, moveFence    string
	// lockTimeout is an argument of the marking statements: milliseconds as text.
	lockTimeout string
}

// withXact adds to what a statement returns the number of the transaction that it wrote in.
const withXact = ", pg_current_xact_id()::text"

func newStatements(c config) statements {
	in := func(text string) string { return c.limits.In(pgsql.Quote(c.schema), text) }
	many := make(map[pgsql.Kind]string, 4)
	for i := range 4 {
		// Carefully, always: on the other way a key whose time was removed is told by the column in
		// the server's error, which database/sql does not hand on.
		k := pgsql.Kind{Timed: i&1 != 0, Print: i&2 != 0, Careful: true}
		many[k] = in(pgsql.MarkMany(k)) + withXact
	}
	return statements{
		markMany:    many,
		lookTimed:   in(pgsql.LookTimed),
		lookPlain:   in(pgsql.LookPlain),
		parked:      in(pgsql.Parked),
		moveFence:   in(pgsql.MoveFence) + withXact,
		lockTimeout: strconv.FormatInt(c.lockWait.Milliseconds(), 10),
	}
}

// in puts the schema into a text.
func (s *Store) in(text string) string { return pgsql.In(s.schema, text) }

// querier is a connection or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// acquire takes a connection within the limit. A sql.DB that was closed gives none, which must not
// look like the fault of the message.
func (s *Store) acquire(ctx context.Context) (*sql.Conn, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.config.acquireWait, errNoConnection)
	defer cancel()
	conn, err := s.db.Conn(limited)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ended(ctx, err)
	case context.Cause(limited) == errNoConnection:
		stats := s.db.Stats()
		return nil, fmt.Errorf("%w within %s (at most %d, %d in use): %w",
			errNoConnection, s.config.acquireWait, stats.MaxOpenConnections, stats.InUse, err)
	default:
		return nil, fmt.Errorf("%w: %w", errNoDatabase, err)
	}
}

// exec runs a statement, which commits by itself, and returns how many rows it has written.
func (s *Store) exec(ctx context.Context, text string, args ...any) (int64, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	result, err := conn.ExecContext(ctx, s.in(text), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// scanRow reads the one row of a statement, which commits by itself.
func (s *Store) scanRow(ctx context.Context, dest []any, text string, args ...any) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.QueryRowContext(ctx, s.in(text), args...).Scan(dest...)
}

// each calls read for every row of a query. The rows are read to their end, so that the connection
// is free for the next statement.
func each(ctx context.Context, q querier, read func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
