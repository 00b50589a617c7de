package pgsql

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// What the same code says of a handler's statement and of the store's own; zero leaves it to what else
// is known.
func TestFaultsByCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		any, own   store.Fault
		hint       string
	}{
		{"no code", "", 0, 0, ""},
		{"half a code", "0", 0, 0, ""},
		{"serialisation", "40001", store.FaultConflict, 0, ""},
		{"deadlock", "40P01", store.FaultConflict, 0, ""},
		{"lock timeout", "55P03", store.FaultBusy, 0, ""},
		{"canceled", "57014", 0, store.FaultBusy, ""},
		{"idle in transaction", "25P03", store.FaultHandler, 0, ""},
		{"too long in transaction", "25P04", store.FaultHandler, 0, ""},
		{"read only", "25006", store.FaultOutage, 0, ""},
		{"shutdown", "57P01", store.FaultOutage, 0, ""},
		{"crashed", "57P02", store.FaultOutage, 0, ""},
		{"starting up", "57P03", store.FaultOutage, 0, ""},
		{"connection lost", "08006", store.FaultOutage, 0, ""},
		{"disk full", "53100", store.FaultOutage, 0, ""},
		{"too many connections", "53300", store.FaultOutage, 0, ""},
		{"input or output", "58030", store.FaultOutage, 0, ""},
		{"a pooler that forgets", "26000", store.FaultOutage, store.FaultOutage, "pooler"},
		{"a pooler that mixes up", "42P05", store.FaultOutage, store.FaultOutage, "pooler"},
		{"no schema", "3F000", 0, store.FaultSetup, `run pgstore.Migrate`},
		{"no table", "42P01", 0, store.FaultSetup, `schema "semel"`},
		{"no column", "42703", 0, store.FaultSetup, `run pgstore.Migrate`},
		{"no function", "42883", 0, store.FaultSetup, `run pgstore.Migrate`},
		{"no right", "42501", 0, store.FaultSetup, `USAGE on schema "semel"`},
		{"unique violation", "23505", 0, 0, ""},
		// What the clients tell apart by more than the code, each in its own way.
		{"check violation", "23514", 0, 0, ""},
		{"not supported", "0A000", 0, 0, ""},
	} {
		if got := Fault(c.code); got != c.any {
			t.Errorf("%s: it is %s, want %s", c.name, got, c.any)
		}
		own, hint := OwnFault(Quote("semel"), c.code)
		if own != c.own || (hint == "") != (c.hint == "") || !strings.Contains(hint, c.hint) {
			t.Errorf("%s of the store's: it is %s (%q), want %s (%q)", c.name, own, hint, c.own, c.hint)
		}
	}
}

func TestIsNetworkError(t *testing.T) {
	t.Parallel()
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "dial", Err: errors.New("refused")}} {
		if !IsNetworkError(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("%v is not seen as one", err)
		}
	}
	for _, err := range []error{nil, errors.New("no"), io.ErrShortWrite} {
		if IsNetworkError(err) {
			t.Errorf("%v is seen as one", err)
		}
	}
}

func TestScopeQuestions(t *testing.T) {
	t.Parallel()
	for q, says := range map[ScopeQuestion]string{
		{"billing", time.Millisecond}:     "",
		{"billing", store.Forever}:        "",
		{"billing", time.Millisecond - 1}: "a millisecond is the least",
		{"billing", 0}:                    `consumer "billing"`,
		{"", time.Hour}:                   "scope: ",
	} {
		err := q.Check()
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: the error is %v, want one with %q", q, err, says)
		}
	}
}

func TestTablesMayBeNewerThanNeededAndNotOlder(t *testing.T) {
	t.Parallel()
	if err := CheckVersion(`"semel"`, 10, 9); err != nil {
		t.Error(err)
	}
	if err := CheckVersion(`"semel"`, 8, 9); err == nil || !strings.Contains(err.Error(), `schema "semel" is at version 8`) {
		t.Errorf("the error is %v", err)
	}
}
