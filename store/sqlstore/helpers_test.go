package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// withSettings adds settings to a DSN in the form of a URL; both drivers send those that they do
// not know to the server.
func withSettings(t *testing.T, dsn string, settings ...string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(settings); i += 2 {
		q.Set(settings[i], settings[i+1])
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq, and so pgx, does not read + as a space
	return u.String()
}

func scopeOf(t *testing.T, s store.Marks[*sql.Tx]) store.Scope {
	t.Helper()
	scope, err := s.Scope(t.Context(), "consumer", store.Forever)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func plainMark(scope store.Scope, name string) store.Mark {
	return store.Mark{Scope: scope, Key: store.DigestKey([]byte(name))}
}

// begin opens a unit whose mark must be new.
func begin(t *testing.T, s store.Marks[*sql.Tx], mark store.Mark) store.Unit[*sql.Tx] {
	t.Helper()
	u, status, err := s.Begin(t.Context(), []store.Mark{mark})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Rollback(context.Background()) })
	if status[0] != store.New {
		t.Fatalf("the mark is %s, want new", status[0])
	}
	return u
}

// wantMark asks whether a mark is committed, after whoever may still hold it.
func wantMark(t *testing.T, s store.Marks[*sql.Tx], mark store.Mark, want store.Status) {
	t.Helper()
	u, status, err := s.Begin(t.Context(), []store.Mark{mark})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = u.Rollback(context.Background()) }()
	if status[0] != want {
		t.Errorf("the mark is %s, want %s", status[0], want)
	}
}

func (p *place) wantEffects(want int) {
	p.t.Helper()
	if n := queryOne[int64](p.t, p.admin, "select count(*) from effects"); int(n) != want {
		p.t.Errorf("%d effects, want %d", n, want)
	}
}

func wantEnd(t *testing.T, end store.End, err error, want store.End, causes ...error) {
	t.Helper()
	if end != want || (err == nil) != (want == store.Committed) {
		t.Fatalf("end is %s with error %v, want %s", end, err, want)
	}
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			t.Errorf("the error is %v, want one that is %q", err, cause)
		}
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != code {
		t.Errorf("the error is %v, want SQLSTATE %s", err, code)
	}
}

// named gives each call a name of its own.
func named(format string) func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf(format, n)
	}
}

func newGuard(t *testing.T, s store.Marks[*sql.Tx], h dedup.TxHandlerFunc[*sql.Tx]) *dedup.TxGuard[*sql.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, h)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func message(id string) dedup.Message {
	return dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte(id)}}}
}

func wantOutcome(t *testing.T, r dedup.Result, want dedup.Outcome, fault store.Fault) {
	t.Helper()
	if r.Outcome != want || r.Fault != fault {
		t.Errorf("the message is %s (%s) with error %v, want %s (%s)", r.Outcome, r.Fault, r.Err, want, fault)
	}
}

func addEffect(ctx context.Context, tx *sql.Tx, _ dedup.Message) error {
	return addNamed(ctx, tx, "effect")
}
