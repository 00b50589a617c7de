package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/semel-dev/semel/store"
)

// serverError is what every driver has in common: the code.
type serverError string

func (e serverError) Error() string    { return "nein (" + string(e) + ")" }
func (e serverError) SQLState() string { return string(e) }

// What the codes say in general has its table in package pgsql; here is what this client makes of
// them, and of what has none.
func TestFault(t *testing.T) {
	t.Parallel()
	s, err := New(new(sql.DB))
	if err != nil {
		t.Fatal(err)
	}
	code := func(c string) error { return fmt.Errorf("wrapped: %w", serverError(c)) }
	own := func(err error) error { return s.own(context.Background(), err) }
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		err  error
		want store.Fault
	}{
		{"nothing", nil, 0},
		{"any error", errors.New("no"), store.FaultHandler},
		{"serialisation", code("40001"), store.FaultConflict},
		{"serialisation in the store", own(code("40001")), store.FaultConflict},
		{"lock timeout in the store", own(code("55P03")), store.FaultBusy},
		{"canceled in the handler", code("57014"), store.FaultHandler},
		{"canceled in the store", own(code("57014")), store.FaultBusy},
		{"canceled in the store by the caller", s.own(over, code("57014")), store.FaultCanceled},
		{"a check of the handler's", code("23514"), store.FaultHandler},
		{"a partition was attached", own(code("23514")), store.FaultConflict},
		{"not supported in the handler", code("0A000"), store.FaultHandler},
		{"cached plan", own(code("0A000")), store.FaultConflict},
		{"no table of the handler's", code("42P01"), store.FaultHandler},
		{"no table of the store's", own(code("42P01")), store.FaultSetup},
		{"no right of the store's", own(code("42501")), store.FaultSetup},
		{"a pooler that forgets", own(code("26000")), store.FaultOutage},
		{"position of another epoch", fmt.Errorf("w: %w", store.ErrLost), store.FaultBusy},
		{"caller out of time", context.DeadlineExceeded, store.FaultCanceled},
		{"connection refused", &net.OpError{Op: "dial", Err: errors.New("refused")}, store.FaultOutage},
		{"end of stream", io.ErrUnexpectedEOF, store.FaultOutage},
		{"connection is bad", driver.ErrBadConn, store.FaultOutage},
		{"connection is done", sql.ErrConnDone, store.FaultOutage},
		{"no connection", fmt.Errorf("%w: %w", errNoConnection, context.DeadlineExceeded), store.FaultOutage},
	} {
		if got := s.Fault(c.err); got != c.want {
			t.Errorf("%s: %v is %s, want %s", c.name, c.err, got, c.want)
		}
	}
}
