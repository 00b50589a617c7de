package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/semel-dev/semel/store"
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
	switch sqlState(err) {
	case "3F000", "42P01", "42703", "42883":
		return setup(err, fmt.Sprintf("the tables in schema %s are missing or older than this package: run pgstore.Migrate with a role that may create them", s.schema))
	case "42501":
		return setup(err, fmt.Sprintf("the role needs USAGE on schema %s and SELECT, INSERT, UPDATE, DELETE on its tables", s.schema))
	case "57014":
		// A statement_timeout below the limit on lock waits ends the wait for a rival.
		return &markedError{err, store.FaultBusy}
	case "23514":
		// A partition was attached between the choice of the default partition and the insert.
		return &markedError{err, store.FaultConflict}
	case "0A000":
		// After a change of a table's shape a cached plan fails once.
		return &markedError{err, store.FaultConflict}
	case "26000", "42P05":
		return fmt.Errorf("%w: prepared statements do not survive this pooler: set the driver's mode for that (pgx: default_query_exec_mode=exec, lib/pq: binary_parameters=yes)", err)
	}
	if sqlState(err) == "" && isConnectionError(err) {
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
	if f := serverFault(err); f != 0 {
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

// serverFault judges by SQLSTATE, for statements of ours and of handlers alike; 0 where
// the code alone says nothing.
func serverFault(err error) store.Fault {
	code := sqlState(err)
	switch code {
	case "40001", "40P01":
		return store.FaultConflict
	case "55P03":
		return store.FaultBusy
	case "25P03":
		// The handler was idle in the transaction for longer than the server allows. It would
		// be next time, too, so it must not look like an outage that passes.
		return store.FaultHandler
	case "26000", "42P05":
		return store.FaultOutage
	case "25006":
		// Read-only: a replica, or a primary that is being demoted.
		return store.FaultOutage
	case "57P01", "57P02", "57P03":
		return store.FaultOutage
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "58":
		return store.FaultOutage
	}
	return 0
}

func isConnectionError(err error) bool {
	var network net.Error
	return errors.As(err, &network) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
