package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// A handler on its way into the rest is stopped by a migration that makes the partition it
// belongs to. The rest then refuses the row, which the guard takes for a conflict.
func TestMarkWhilePartitionIsAttached(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{false, true} {
		t.Run(fmt.Sprint("queued=", queued), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			s := newStore(t, newPool(t, pool.Config().ConnString(), oneConnection))
			at := time.Now().Add(2 * year)
			// The session has seen the partitions as they were.
			begin(t, s, timedMark(scopeOf(t, s), at, "earlier")).Rollback(t.Context())

			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := pgstore.Migrate(t.Context(), tx, pgstore.WithPartitions(year, 3*year)); err != nil {
				t.Fatal(err)
			}
			faults := &watched{Marks: s}
			key := func(dedup.Message) (dedup.Key, error) { return dedup.KeyAt(at, []byte("m")) }
			var g interface {
				Process(context.Context, dedup.Message) dedup.Result
			}
			if queued {
				g, err = dedup.NewTx(s.Queued(), "consumer", key, dedup.Forever, func(_ context.Context, b *pgx.Batch, _ dedup.Message) error {
					b.Queue("insert into effects values ('effect')")
					return nil
				})
			} else {
				g, err = dedup.NewTx(faults, "consumer", key, dedup.Forever, addEffect)
			}
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan dedup.Result)
			go func() { done <- g.Process(t.Context(), dedup.Message{}) }()
			awaitWaiting(t, pool, 1)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, <-done, dedup.Applied, 0)
			wantEffects(t, pool, 1)
			if !queued && faults.conflicts.Load() != 1 {
				t.Errorf("%d conflicts, want 1", faults.conflicts.Load())
			}
			if in := where(t, pool, timedMark(scopeOf(t, s), at, "m")); in == "marks_timed_rest" {
				t.Error("the mark is in the rest")
			}
		})
	}
}

// watched counts the conflicts that its store reports.
type watched struct {
	store.Marks[pgx.Tx]
	conflicts atomic.Int32
}

func (w *watched) Fault(err error) store.Fault {
	f := w.Marks.Fault(err)
	if f == store.FaultConflict {
		w.conflicts.Add(1)
	}
	return f
}

// A table of the handler's may have a name like one of the store's; its constraint is its own.
func TestHandlersCheckConstraintIsNoConflict(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "create table marks_timed_mine (n int check (n > 0))")
	r := newGuard(t, newStore(t, pool), func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, "insert into marks_timed_mine values (0)")
		return err
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)
	wantCode(t, r.Err, "23514")
}

func TestMigrateWhileHandlersWork(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = 4 }))
	// Half of the messages are of times whose partitions are being made.
	from := time.Now().Add(year)
	key := func(m dedup.Message) (dedup.Key, error) {
		return dedup.KeyAt(from.Add(time.Duration(m.Attempt%100)*8*week), []byte(fmt.Sprint(m.Attempt)))
	}
	g, err := dedup.NewTx(s, "consumer", key, dedup.Forever, addEffect)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var next, applied atomic.Int64
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				ms := []dedup.Message{{Attempt: int(next.Add(1))}, {Attempt: int(next.Add(1))}}
				for _, r := range g.ProcessEach(t.Context(), ms) {
					if r.Outcome != dedup.Applied {
						t.Errorf("%s: %v", r.Outcome, r.Err)
						return
					}
					applied.Add(1)
				}
			}
		})
	}
	for ahead := year; ahead < 12*year; ahead += year / 2 {
		if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(26*week, ahead)); err != nil {
			t.Error(err)
		}
	}
	stop()
	workers.Wait()
	wantEffects(t, pool, int(applied.Load()))
	if n := queryOne[int64](t, pool, "select count(*) from semel.marks_timed"); n != applied.Load() {
		t.Errorf("%d marks for %d messages", n, applied.Load())
	}
}
