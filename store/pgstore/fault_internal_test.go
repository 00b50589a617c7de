package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
)

// What a German server says differs in its words alone.
func pgError(code, severity string) error {
	german := map[string]string{"ERROR": "FEHLER", "FATAL": "FATAL", "PANIC": "PANIK"}
	return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Severity: german[severity], SeverityUnlocalized: severity, Message: "nein"})
}

func TestEndOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		tag  string
		err  error
		want store.End
	}{
		{"committed", "COMMIT", nil, store.Committed},
		{"answered with a rollback", "ROLLBACK", nil, store.RolledBack},
		{"a deferred constraint", "", pgError("23503", "ERROR"), store.RolledBack},
		{"a serialisation failure", "", pgError("40001", "ERROR"), store.RolledBack},
		{"an old server that has no other severity", "", &pgconn.PgError{Code: "23503", Severity: "ERROR"}, store.RolledBack},
		{"idle for too long before it", "", pgError("25P03", "FATAL"), store.RolledBack},
		{"the session was terminated", "", pgError("57P01", "FATAL"), store.Unknown},
		{"the server crashed", "", pgError("57P02", "FATAL"), store.Unknown},
		{"the log cannot be written", "", pgError("58030", "PANIC"), store.Unknown},
		{"the connection broke", "", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), store.Unknown},
		{"a deadline", "", context.DeadlineExceeded, store.Unknown},
	} {
		end, err := endOf(pgconn.NewCommandTag(c.tag), c.err)
		if end != c.want || (err == nil) != (c.want == store.Committed) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v, want %s", c.name, end, err, c.want)
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	s, err := New(new(pgxpool.Pool))
	if err != nil {
		t.Fatal(err)
	}
	code := func(c string) error { return pgError(c, "ERROR") }
	attached := &pgconn.PgError{Code: "23514", SchemaName: "semel", TableName: "marks_timed_rest"}
	ofAnother := &pgconn.PgError{Code: "23514", SchemaName: "public", TableName: "marks_timed_rest"}
	for _, c := range []struct {
		name string
		err  error
		want store.Fault
	}{
		{"nothing", nil, 0},
		{"any error", errors.New("no"), store.FaultHandler},
		{"serialisation", code("40001"), store.FaultConflict},
		{"deadlock", code("40P01"), store.FaultConflict},
		{"cached plan", &pgconn.PgError{Code: "0A000", Message: "nein", Routine: "RevalidateCachedQuery"}, store.FaultConflict},
		{"not supported", &pgconn.PgError{Code: "0A000", Message: "cached plans are not"}, store.FaultHandler},
		{"a partition was attached", attached, store.FaultConflict},
		{"a table of the same name elsewhere", ofAnother, store.FaultHandler},
		{"lock timeout", code("55P03"), store.FaultBusy},
		{"canceled in the handler", code("57014"), store.FaultHandler},
		{"canceled in the store", s.own(code("57014")), store.FaultBusy},
		{"idle in transaction", code("25P03"), store.FaultHandler},
		{"read only", code("25006"), store.FaultOutage},
		{"shutdown", code("57P01"), store.FaultOutage},
		{"starting up", code("57P03"), store.FaultOutage},
		{"connection lost", code("08006"), store.FaultOutage},
		{"too many connections", code("53300"), store.FaultOutage},
		{"disk full", code("53100"), store.FaultOutage},
		{"input or output", code("58030"), store.FaultOutage},
		{"a pooler that forgets", code("26000"), store.FaultOutage},
		{"unique violation", code("23505"), store.FaultHandler},
		{"no table of the handler's", code("42P01"), store.FaultHandler},
		{"no table of the store's", s.own(code("42P01")), store.FaultSetup},
		{"no right of the store's", s.own(code("42501")), store.FaultSetup},
		{"no code at all", &pgconn.PgError{}, store.FaultHandler},
		{"caller canceled", fmt.Errorf("w: %w", context.Canceled), store.FaultCanceled},
		{"caller out of time", context.DeadlineExceeded, store.FaultCanceled},
		{"connection refused", &net.OpError{Op: "dial", Err: errors.New("refused")}, store.FaultOutage},
		{"end of stream", io.ErrUnexpectedEOF, store.FaultOutage},
		{"connection closed", pgconn.ErrConnClosed, store.FaultOutage},
		{"no connection", fmt.Errorf("%w: %w", errNoConnection, context.DeadlineExceeded), store.FaultOutage},
	} {
		if got := s.Fault(c.err); got != c.want {
			t.Errorf("%s: %v is %s, want %s", c.name, c.err, got, c.want)
		}
	}
}
