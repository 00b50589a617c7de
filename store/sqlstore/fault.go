package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

var (
	errNoConnection = errors.New("no connection was free")
	errNoDatabase   = errors.New("the sql.DB gives no connection")
)

// markedError is an error whose fault is known where it occurs.
type markedError struct {
	error
	fault store.Fault
}

func (e *markedError) Unwrap() error { return e.error }

// sqlState is the server's code, which the errors of every driver for PostgreSQL carry.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// ended notes that the caller's context has ended, of which a driver may make any error.
func ended(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// own adds what only this package knows to an error of one of its own statements: the
// same SQLSTATE from a handler's statement is the handler's affair.
func (s *Store) own(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	code := sqlState(err)
	switch fault, hint := pgsql.OwnFault(s.schema, code); fault {
	case store.FaultSetup:
		return setup(err, hint)
	case store.FaultBusy:
		return &markedError{err, store.FaultBusy}
	case store.FaultOutage:
		return fmt.Errorf("%w: %s: set the driver's mode for that (pgx: default_query_exec_mode=exec, lib/pq: binary_parameters=yes)", err, hint)
	}
	// Nobody can say where in the server an error was made and on which table, so these are told
	// for the store's own statements alone, and by their codes.
	switch code {
	case "23514":
		// A partition was attached between the choice of the default partition and the insert.
		return &markedError{err, store.FaultConflict}
	case "0A000":
		// After a change of a table's shape a cached plan fails once.
		return &markedError{err, store.FaultConflict}
	}
	if code == "" && isConnectionError(err) {
		return &markedError{err, store.FaultOutage}
	}
	return err
}

func setup(err error, hint string) error {
	return &markedError{fmt.Errorf("%w: %s", err, hint), store.FaultSetup}
}

// Fault implements [store.Marks].
func (s *Store) Fault(err error) store.Fault {
	if err == nil {
		return 0
	}
	var marked *markedError
	if errors.As(err, &marked) {
		return marked.fault
	}
	// A connection that could not be made in time has an expired context inside, too.
	if errors.Is(err, errNoConnection) || errors.Is(err, errNoDatabase) {
		return store.FaultOutage
	}
	if f := pgsql.Fault(sqlState(err)); f != 0 {
		return f
	}
	switch {
	case errors.Is(err, store.ErrLost):
		return store.FaultBusy // the position has another epoch; its owner asks again
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return store.FaultCanceled
	case isConnectionError(err):
		return store.FaultOutage
	}
	return store.FaultHandler
}

func isConnectionError(err error) bool {
	return pgsql.IsNetworkError(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}
