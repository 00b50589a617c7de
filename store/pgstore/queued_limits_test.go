package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// Below the commit limit, the limit on statements makes a failure of the handler's of what would be an outage
// each time: the message can be given up.
func TestQueuedStatementBeyondItsLimitFailsItsMessage(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool, pgstore.WithStatementLimit(50*time.Millisecond)).Queued()
	scope, name := scopeOf(t, s), named("mark %d")
	for what, queue := range map[string]func(b *pgx.Batch){
		"alone": func(b *pgx.Batch) { b.Queue("select pg_sleep(60)") },
		"with a function": func(b *pgx.Batch) {
			b.Queue("select pg_sleep(60)").QueryRow(func(row pgx.Row) error { return row.Scan(new(any)) })
		},
	} {
		both(t, func(t *testing.T, next bool) {
			mark := plainMark(scope, name())
			u := begin(t, s, mark)
			u.Tx().Queue("insert into effects values ('before')")
			queue(u.Tx())
			end, err := endQueued(t, u, next, plainMark(scope, name()))
			wantEnd(t, end, err, store.RolledBack)
			wantCode(t, err, "57014")
			if f := s.Fault(err); f != store.FaultHandler {
				t.Errorf("%s: the fault is %s, want handler", what, f)
			}
			wantMark(t, s, mark, store.New)
		})
		g := queuedGuard(t, s, func(_ context.Context, b *pgx.Batch, _ dedup.Message) error {
			queue(b)
			return nil
		})
		ms := []dedup.Message{message(what + " 1"), message(what + " 2")}
		for _, r := range [][]dedup.Result{g.ProcessEach(t.Context(), ms), g.ProcessBatch(t.Context(), ms)} {
			if len(r) != 1 {
				t.Fatalf("%s: %d results", what, len(r))
			}
			wantOutcome(t, r[0], dedup.Failed, store.FaultHandler)
		}
	}
	wantEffects(t, pool, 0)
}

// What [pgstore.Queued] warns of: whether the server commits behind a statement for which nobody has
// waited is not known.
func TestQueuedWorkBeyondTheCommitLimitIsAnOutage(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	g := queuedGuard(t, newStore(t, pool).Queued(), func(_ context.Context, b *pgx.Batch, _ dedup.Message) error {
		b.Queue("select pg_sleep(60)")
		return nil
	}, dedup.WithCommitLimit(100*time.Millisecond))
	r := g.Process(t.Context(), message("m"))
	// On a slow machine the limit may have passed before anything was sent, and then it is known.
	if r.Outcome.Settled() || r.Fault != store.FaultOutage {
		t.Errorf("the message is %s (%s) with error %v, want unknown (outage)", r.Outcome, r.Fault, r.Err)
	}
}

func queuedGuard(t *testing.T, s store.Marks[*pgx.Batch], h dedup.TxHandlerFunc[*pgx.Batch], opts ...dedup.TxOption) *dedup.TxGuard[*pgx.Batch] {
	t.Helper()
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
