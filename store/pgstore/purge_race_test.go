package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// A transaction that has its snapshot from before the announcement does not see it. Nothing is
// removed before it ends, or it would mark an old message as new.
func TestPurgeWaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]pgx.TxOptions{
		"repeatable read": {IsoLevel: pgx.RepeatableRead},
		"reading":         {IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := withDays(t)
			s := newStore(t, pool)
			scope, now := keptScope(t, s, "consumer", day), time.Now()
			marks := aged(scope, now.Add(-6*day), "m")
			commitMarks(t, s, marks...)
			reach(t, s, scope, 0, now)

			tx, err := pool.BeginTx(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			var pid int32
			if err := tx.QueryRow(t.Context(), "select pg_backend_pid() from semel.scopes").Scan(&pid); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				done := purge(t, s, pgstore.WithSnapshotWait(20*time.Millisecond))
				wantRows(t, pool, scope, 1, 1)
				if done.Snapshot == nil || done.Snapshot.PID != pid || time.Since(done.Snapshot.Since) > time.Minute {
					t.Errorf("held back by %+v, want session %d", done.Snapshot, pid)
				}
				if c := byConsumer(t, done, "consumer"); !c.Safe.IsZero() || c.Announced.IsZero() {
					t.Errorf("announced %s, safe %s", c.Announced, c.Safe)
				}
			}
			if options.AccessMode != pgx.ReadOnly {
				status, err := s.MarkTx(t.Context(), tx, marks)
				if err != nil || status[0] != store.Seen || status[1] != store.Seen {
					t.Errorf("the old transaction finds %v (%v), want seen", status, err)
				}
			}
			// It comes to know of it afterwards, and elsewhere it is known already.
			for _, mark := range aged(scope, now.Add(-6*day), "never seen") {
				wantMark(t, s, mark, store.Late)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if done := purge(t, s); done.Snapshot != nil {
				t.Errorf("held back by %+v, which is over", done.Snapshot)
			}
			wantRows(t, pool, scope, 0, 0)
		})
	}
}

// The same at READ COMMITTED: a statement keeps its snapshot while it waits for a rival.
func TestPurgeWaitsForAStatementThatWaitsForARival(t *testing.T) {
	t.Parallel()
	for _, table := range []int{0, 1} {
		t.Run([]string{"timed", "plain"}[table], func(t *testing.T) {
			t.Parallel()
			pool := withDays(t)
			s := newStore(t, pool, pgstore.WithLockWait(time.Minute))
			scope, now := keptScope(t, s, "consumer", day), time.Now()
			first, second := aged(scope, now.Add(-10*day), "a")[table], aged(scope, now.Add(-6*day), "b")[table]
			if first.Key.ID.String() > second.Key.ID.String() {
				first, second = second, first
			}
			commitMarks(t, s, second)
			rival := begin(t, s, first)

			statuses := make(chan []store.Status)
			go func() {
				u, status, err := s.Begin(t.Context(), []store.Mark{second, first})
				if err != nil {
					t.Error(err)
				} else {
					_ = u.Rollback(t.Context())
				}
				statuses <- status
			}()
			awaitWaiting(t, pool, 1)
			reach(t, s, scope, 0, now)
			if done := purge(t, s, pgstore.WithSnapshotWait(20*time.Millisecond)); done.Snapshot == nil {
				t.Error("the statement that waits was not noticed")
			}
			end, err := rival.Commit(t.Context())
			wantEnd(t, end, err, store.Committed)
			if status := <-statuses; len(status) != 2 || status[0] != store.Seen || status[1] != store.Seen {
				t.Errorf("after the rival the marks are %v, want seen", status)
			}
			purge(t, s)
			if n := rowsOf(t, pool, "marks_timed", scope) + rowsOf(t, pool, "marks_plain", scope); n != 0 {
				t.Errorf("%d marks stay", n)
			}
		})
	}
}

// The transactions that follow each other, each longer than the time between two passes, do not
// keep a purge from its turn for ever.
func TestPurgeIsNotStarvedByLongTransactions(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s := newStore(t, pool)
	scope, now := keptScope(t, s, "consumer", day), time.Now()
	commitMarks(t, s, aged(scope, now.Add(-6*day), "m")...)
	open := func() pgx.Tx {
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		if _, err := tx.Exec(t.Context(), "select from semel.scopes"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	purger := newPurger(t, s, pgstore.WithSnapshotWait(0))
	// Since a transaction writes in another database of the server, all snapshots look old.
	elsewhere, err := newPool(t, servertest.Postgres(t)).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = elsewhere.Rollback(context.Background()) })
	if _, err := elsewhere.Exec(t.Context(), "create table written ()"); err != nil {
		t.Fatal(err)
	}
	// Each is there during two passes.
	last := open()
	for i := range 5 {
		next := open()
		reach(t, s, scope, 0, now.Add(time.Duration(i-5)*time.Minute))
		if _, err := purger.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := last.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		last = next
	}
	wantRows(t, pool, scope, 0, 0)
}

// Messages that come again and again while the time before which marks are removed passes over
// them never have two effects.
func TestPurgeUnderDuplicates(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	exec(t, pool, "create table done (name text not null)")
	const messages, keep = 400, time.Hour
	start := time.Now().Add(-10 * day)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * 20 * time.Minute) } // five and a half days
	key := func(m dedup.Message) (dedup.Key, error) {
		if n := int(m.Position.Offset); n%2 == 0 {
			return dedup.KeyAt(at(n), []byte(fmt.Sprint(n)))
		}
		return dedup.FromHeader("id")(m)
	}
	handler := func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, "insert into done values ($1)", fmt.Sprint(m.Position.Offset))
		return err
	}
	handlers := newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = 6 })
	var guards []*dedup.TxGuard[pgx.Tx]
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead} {
		g, err := dedup.NewTx(newStore(t, handlers, pgstore.WithIsolation(level)), "consumer", key, keep, handler)
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, g)
	}
	s := newStore(t, pool)
	scope := keptScope(t, s, "consumer", keep)

	ctx, stop := context.WithCancel(t.Context())
	var front, late atomic.Int64
	front.Store(20)
	var workers sync.WaitGroup
	for i := range 6 {
		workers.Go(func() {
			for ctx.Err() == nil {
				var ms []dedup.Message
				for range 1 + rand.IntN(8) {
					n := max(0, int(front.Load())-rand.IntN(40))
					id := []byte(fmt.Sprint(n))
					ms = append(ms, dedup.Message{Position: dedup.Position{Log: "log", Offset: int64(n), Time: at(n)}, Headers: []dedup.Header{{Key: "id", Value: id}}})
				}
				results := guards[i%3].ProcessEach(t.Context(), ms)
				if i%2 == 0 {
					results = guards[i%3].ProcessBatch(t.Context(), ms)
				}
				for _, r := range results {
					switch r.Outcome {
					case dedup.Applied, dedup.Duplicate:
					case dedup.Late:
						late.Add(1)
					default:
						if r.Fault != store.FaultConflict {
							t.Errorf("%s (%s): %v", r.Outcome, r.Fault, r.Err)
							return
						}
					}
				}
			}
		})
	}
	purger := newPurger(t, s)
	var removed int64
	for n := int64(21); n < messages; n += 3 {
		front.Store(n)
		reach(t, s, scope, 0, at(int(n)-15))
		done, err := purger.Purge(t.Context())
		if err != nil {
			t.Error(err)
		}
		removed += done.Rows()
	}
	stop()
	workers.Wait()
	if twice := queryOne[int64](t, pool, "select count(*) from (select from done group by name having count(*) > 1) d"); twice != 0 {
		t.Errorf("%d messages had two effects", twice)
	}
	if n := queryOne[int64](t, pool, "select count(*) from done"); n < 100 || removed < 50 || late.Load() < 100 {
		t.Errorf("%d messages, %d marks removed, %d times late: that shows nothing", n, removed, late.Load())
	}
}

// In a server that was restored from a dump, transactions are numbered otherwise.
func TestPurgeAfterARestore(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s := newStore(t, pool)
	scope, now := keptScope(t, s, "consumer", day), time.Now()
	commitMarks(t, s, aged(scope, now.Add(-6*day), "m")...)
	exec(t, pool, "update semel.scopes set purged_ms = $1, purged_xid = '99999999999'", now.Add(-3*day).UnixMilli())
	purge(t, s)
	wantRows(t, pool, scope, 0, 0)
}
