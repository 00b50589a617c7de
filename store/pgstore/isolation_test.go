package pgstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// rivals lets eight workers handle one message at once: the first to get in holds the
// transaction open until the other seven wait for it. It returns their outcomes and how often
// the handler ran.
func rivals(t *testing.T, pool *pgxpool.Pool, opts ...pgstore.Option) (outcomes map[dedup.Outcome]int, runs int) {
	t.Helper()
	const workers = 8
	s := newStore(t, newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = workers }), opts...)
	var mu sync.Mutex
	g := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		mu.Lock()
		runs++
		mu.Unlock()
		awaitWaiting(t, pool, workers-1)
		return addEffect(ctx, tx, m)
	})
	outcomes = map[dedup.Outcome]int{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			r := g.Process(t.Context(), message("m"))
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Outcome]++
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	wg.Wait()
	return outcomes, runs
}

// The mark is set before the handler runs. Set after it, all eight handlers would run at
// once, and seven would have worked in vain.
func TestRivalsOfOneMessage(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{"", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			outcomes, runs := rivals(t, pool, pgstore.WithIsolation(level))
			if outcomes[dedup.Applied] != 1 || outcomes[dedup.Duplicate] != 7 {
				t.Errorf("the outcomes are %v, want one applied and seven duplicates", outcomes)
			}
			if runs != 1 {
				t.Errorf("the handler ran %d times", runs)
			}
			wantEffects(t, pool, 1)
		})
	}
}

func TestRivalsCommitIsAConflictAboveReadCommitted(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			s := newStore(t, pool, pgstore.WithIsolation(level))
			mark := plainMark(scopeOf(t, s), "m")
			u := begin(t, s, mark)
			if got := level; u.Tx().QueryRow(t.Context(), "show transaction_isolation").Scan(&got) != nil || got != level {
				t.Fatalf("the level is %s", got)
			}
			rival := make(chan error)
			go func() {
				_, _, err := s.Begin(t.Context(), []store.Mark{mark})
				rival <- err
			}()
			awaitWaiting(t, pool, 1)
			end, err := u.Commit(t.Context())
			wantEnd(t, end, err, store.Committed)
			err = <-rival
			wantCode(t, err, "40001")
			if f := s.Fault(err); f != store.FaultConflict {
				t.Errorf("the fault is %s, want conflict", f)
			}
		})
	}
}

// Two handlers that read what the other writes: one of them is refused at its COMMIT and
// runs again, without a failed attempt.
func TestWriteSkewIsRunAgain(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool, pgstore.WithIsolation(pgx.Serializable))
	var met sync.WaitGroup
	met.Add(2)
	var first [2]sync.Once
	var wg sync.WaitGroup
	for i, id := range []string{"a", "b"} {
		wg.Go(func() {
			r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
				var n int
				if err := tx.QueryRow(ctx, "select count(*) from effects").Scan(&n); err != nil {
					return err
				}
				first[i].Do(func() { met.Done(); met.Wait() })
				if n > 0 {
					return nil // the other one was there
				}
				return addEffect(ctx, tx, m)
			}).Process(t.Context(), message(id))
			wantOutcome(t, r, dedup.Applied, 0)
		})
	}
	wg.Wait()
	wantEffects(t, pool, 1)
}

// The mark's row is written by the very transaction in which the handler works.
func TestMarkAndHandlerShareTheTransaction(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	const mine = "select count(*) from semel.marks_plain where xmin::text::bigint = pg_current_xact_id()::text::bigint"
	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := addEffect(ctx, tx, m); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, mine).Scan(&n); err != nil {
			return err
		}
		if n != 1 {
			t.Errorf("%d marks are of the handler's transaction, want 1", n)
		}
		if n := queryOne[int64](t, pool, "select count(*) from semel.marks_plain"); n != 0 {
			t.Errorf("others see %d marks while the handler runs, want 0", n)
		}
		return nil
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Applied, 0)
	wantEffects(t, pool, 1)
}
