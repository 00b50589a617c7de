package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/store"
)

var (
	errNoConnection = errors.New("no connection was free")
	errNoPool       = errors.New("the pool gives no connection")
)

// setupError is an error of one of the store's own statements that a person must mend.
type setupError struct {
	err  error
	hint string
}

func (e *setupError) Error() string { return e.err.Error() + ": " + e.hint }
func (e *setupError) Unwrap() error { return e.err }

// canceledError is an error of one of the store's own statements that the server ended.
type canceledError struct{ error }

func (e *canceledError) Unwrap() error { return e.error }

// own adds what only this package knows to an error of one of its own statements: the
// same SQLSTATE from a handler's statement is the handler's affair.
func (s *Store) own(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "3F000", "42P01", "42703", "42883":
		return &setupError{err, fmt.Sprintf("the tables in schema %s are missing or older than this package: run pgstore.Migrate with a role that may create them", s.schema)}
	case "42501":
		return &setupError{err, fmt.Sprintf("the role needs USAGE on schema %s and SELECT, INSERT, UPDATE, DELETE on its tables", s.schema)}
	case "57014":
		// A statement_timeout below the limit on lock waits ends the wait for a rival.
		return &canceledError{err}
	case "26000", "42P05":
		return fmt.Errorf("%w: prepared statements do not survive this pooler: set DefaultQueryExecMode to pgx.QueryExecModeExec", err)
	}
	return err
}

// Fault implements [store.Marks].
func (s *Store) Fault(err error) store.Fault {
	if err == nil {
		return 0
	}
	var setup *setupError
	if errors.As(err, &setup) {
		return store.FaultSetup
	}
	var canceled *canceledError
	if errors.As(err, &canceled) {
		return store.FaultBusy
	}
	if f := s.serverFault(err); f != 0 {
		return f
	}
	if errors.Is(err, store.ErrLost) {
		return store.FaultBusy // the position has another epoch; its owner asks again
	}
	// A connection that could not be made in time has an expired context inside, too.
	var connect *pgconn.ConnectError
	if errors.Is(err, errNoConnection) || errors.Is(err, errNoPool) || errors.As(err, &connect) && !errors.Is(err, context.Canceled) {
		return store.FaultOutage
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return store.FaultCanceled
	}
	if errors.Is(err, errConnectionLost) || isConnectionError(err) {
		return store.FaultOutage
	}
	return store.FaultHandler
}

// serverFault judges by SQLSTATE, for statements of ours and of handlers alike; 0 where
// the code alone says nothing.
func (s *Store) serverFault(err error) store.Fault {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return 0
	}
	switch pg.Code {
	case "40001", "40P01":
		return store.FaultConflict
	case "0A000":
		// After a change of a table's shape a cached plan fails once; pgx has dropped it by now.
		// The message would be in the server's language.
		if pg.Routine == "RevalidateCachedQuery" {
			return store.FaultConflict
		}
	case "23514":
		// A partition was attached between the choice of the default partition and the
		// insert. A handler's own check constraint has another table.
		if pg.SchemaName == s.config.schema && strings.HasPrefix(pg.TableName, "marks_timed") {
			return store.FaultConflict
		}
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
	switch pg.Code[:min(2, len(pg.Code))] {
	case "08", "53", "58":
		return store.FaultOutage
	}
	return 0
}

func isConnectionError(err error) bool {
	var network net.Error
	return errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}
