package pgstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// The limits hold for one mark and for many, whichever statement sets them, and only within the
// transaction.
func TestLimitsOfTheTransaction(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool, pgstore.WithLockWait(3*time.Second), pgstore.WithStatementLimit(41*time.Second), pgstore.WithIdleLimit(42*time.Second))
	scope := scopeOf(t, s)
	placed := plainMark(scope, "placed")
	placed.Place = &store.Place{Log: "log"}
	for name, marks := range map[string][]store.Mark{
		"plain": {plainMark(scope, "a")}, "timed": {timedMark(scope, time.Now(), "a")},
		"many": {plainMark(scope, "b"), plainMark(scope, "c")}, "many timed": {timedMark(scope, time.Now(), "b"), timedMark(scope, time.Now(), "c")},
		"fence": {placed},
	} {
		var in store.Marks[pgx.Tx] = s
		if name == "fence" {
			in = s.Fenced()
		}
		unit, _, err := in.Begin(t.Context(), marks)
		if err != nil {
			t.Fatal(err)
		}
		var limits string
		err = unit.Tx().QueryRow(t.Context(), "select concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'))").Scan(&limits)
		if err != nil || limits != "3s 41s 42s" {
			t.Errorf("%s: the limits are %q, %v", name, limits, err)
		}
		if err := unit.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := queryOne[string](t, pool, "select current_setting('statement_timeout') || current_setting('idle_in_transaction_session_timeout')"); got != "00" {
		t.Errorf("the limits outlive the transaction: %s", got)
	}
}

// A letter that runs again runs under the same limits, whichever view it is revived by.
func TestLimitsOfARevivedLetter(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool, pgstore.WithLockWait(3*time.Second), pgstore.WithStatementLimit(41*time.Second), pgstore.WithIdleLimit(42*time.Second))
	u := begin(t, s, plainMark(scopeOf(t, s), "m"))
	if err := s.BuryTx(t.Context(), u.Tx(), store.DeadLetter{Consumer: "consumer", State: store.Dead}); err != nil {
		t.Fatal(err)
	}
	end, err := u.Commit(t.Context())
	wantEnd(t, end, err, store.Committed)
	letters, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 1)
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	for name, view := range map[string]store.Reviver[pgx.Tx]{"keys": s, "positions": s.Fenced(), "both": s.FencedMarks()} {
		unit, _, err := view.Revive(t.Context(), letters[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		var limits string
		err = unit.Tx().QueryRow(t.Context(), "select concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'))").Scan(&limits)
		if err != nil || limits != "3s 41s 42s" {
			t.Errorf("%s: the limits are %q, %v", name, limits, err)
		}
		if err := unit.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A handler that exceeds a limit has failed; its message comes again and nothing of it stays.
func TestHandlerThatExceedsALimit(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	limits := map[string]pgstore.Option{"statement": pgstore.WithStatementLimit(50 * time.Millisecond), "idle": pgstore.WithIdleLimit(100 * time.Millisecond)}
	for name, wait := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"statement": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "select pg_sleep(30)"); return err },
		"idle": func(ctx context.Context, tx pgx.Tx) error {
			for !tx.Conn().PgConn().IsClosed() {
				if _, err := tx.Exec(ctx, "select 1"); err != nil {
					return err
				}
				time.Sleep(300 * time.Millisecond) // a slow call to somebody else
			}
			return nil
		},
	} {
		g := newGuard(t, newStore(t, pool, limits[name]), func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			if err := addEffect(ctx, tx, m); err != nil {
				return err
			}
			return wait(ctx, tx)
		})
		r := g.Process(t.Context(), dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte(name)}}})
		if r.Outcome != dedup.Failed || r.Err == nil || name == "statement" && r.Fault != store.FaultHandler {
			t.Errorf("%s: %+v", name, r)
		}
		t.Logf("%s: %s: %v", name, r.Fault, r.Err)
	}
	if n := queryOne[int](t, pool, "select count(*) from effects"); n != 0 {
		t.Errorf("%d effects stay", n)
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	for _, o := range []pgstore.Option{pgstore.WithStatementLimit(0), pgstore.WithIdleLimit(-time.Second), pgstore.WithIdleLimit(1000 * time.Hour)} {
		if _, err := pgstore.New(pool, o); err == nil || !strings.Contains(err.Error(), "it must lie between 1ms and 24 days") {
			t.Errorf("New: %v", err)
		}
	}
}
