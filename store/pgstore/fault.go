package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
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
	switch fault, hint := pgsql.OwnFault(s.schema, pg.Code); fault {
	case store.FaultSetup:
		return &setupError{err, hint}
	case store.FaultBusy:
		return &canceledError{err}
	case store.FaultOutage:
		return fmt.Errorf("%w: %s: set DefaultQueryExecMode to pgx.QueryExecModeExec", err, hint)
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

// serverFault judges an error of the server, of statements of ours and of handlers alike; 0 where
// it alone says nothing. Beyond the code, pgx knows where in the server it was made and on which table,
// so that two cases are told for a handler's statement as well.
func (s *Store) serverFault(err error) store.Fault {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return 0
	}
	switch {
	case pg.Code == "0A000" && pg.Routine == "RevalidateCachedQuery":
		// After a change of a table's shape a cached plan fails once; pgx has dropped it by now.
		// The message would be in the server's language.
		return store.FaultConflict
	case pg.Code == "23514" && pg.SchemaName == s.config.schema && strings.HasPrefix(pg.TableName, "marks_timed"):
		// A partition was attached between the choice of the default partition and the
		// insert. A handler's own check constraint has another table.
		return store.FaultConflict
	}
	return pgsql.Fault(pg.Code)
}

func isConnectionError(err error) bool {
	return pgsql.IsNetworkError(err) || errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}
