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
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

const (
	week = 7 * 24 * time.Hour
	year = 365 * 24 * time.Hour
)

// partition is one row of the store's own record of its partitions.
type partition struct {
	Name         string
	FromMS, ToMS int64
}

func partitions(t *testing.T, pool *pgxpool.Pool) []partition {
	t.Helper()
	rows, err := pool.Query(t.Context(), "select name, from_ms, to_ms from semel.mark_partitions order by from_ms")
	if err != nil {
		t.Fatal(err)
	}
	ps, err := pgx.CollectRows(rows, pgx.RowToStructByPos[partition])
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func TestPartitionsReachFromTwoWeeksBehindToHalfAYearAhead(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	if err := pgstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	now, ps := time.Now(), partitions(t, pool)
	if n := len(ps); n != 29 {
		t.Errorf("%d partitions, want 29: two weeks, this week and 26 weeks", n)
	}
	if from := time.UnixMilli(ps[0].FromMS); from.After(now.Add(-2*week)) || from.Before(now.Add(-3*week)) {
		t.Errorf("they begin at %s", from)
	}
	if to := time.UnixMilli(ps[len(ps)-1].ToMS); to.Before(now.Add(26*week)) || to.After(now.Add(27*week)) {
		t.Errorf("they end at %s", to)
	}
	for i, p := range ps {
		if i > 0 && p.FromMS != ps[i-1].ToMS {
			t.Errorf("%s begins at %d, and the one before ends at %d", p.Name, p.FromMS, ps[i-1].ToMS)
		}
		bounds := queryOne[string](t, pool, "select pg_get_expr(relpartbound, oid) from pg_class where oid = ('semel.' || quote_ident($1))::regclass", p.Name)
		want := fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", lowest(p.FromMS), lowest(p.ToMS))
		if bounds != want {
			t.Errorf("%s is %s, want %s", p.Name, bounds, want)
		}
	}
	attached := queryOne[int64](t, pool, "select count(*) from pg_inherits where inhparent = 'semel.marks_timed'::regclass")
	if int(attached) != len(ps)+1 {
		t.Errorf("%d partitions are attached and %d recorded", attached, len(ps))
	}
	if err := pgstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if n := len(partitions(t, pool)); n != len(ps) {
		t.Errorf("a second run makes %d of %d", n, len(ps))
	}
}

// lowest is the smallest UUID that begins with a time.
func lowest(ms int64) store.ID {
	id := store.TimedKey(time.UnixMilli(ms), nil).ID
	clear(id[6:])
	return id
}

// where returns the partition that holds a mark.
func where(t *testing.T, pool *pgxpool.Pool, mark store.Mark) string {
	t.Helper()
	return queryOne[string](t, pool, "select c.relname::text from semel.marks_timed m join pg_class c on c.oid = m.tableoid where m.scope = $1 and m.key = $2",
		int32(mark.Scope), mark.Key.ID.String())
}

func TestMarksLandInTheirPartition(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(week, 3*week)); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, pool)
	scope, ps := scopeOf(t, s), partitions(t, pool)
	first, last := ps[0], ps[len(ps)-1]
	for at, want := range map[time.Time]string{
		time.UnixMilli(first.FromMS - 1):              "marks_timed_rest",
		time.UnixMilli(first.FromMS):                  first.Name,
		time.UnixMilli(first.ToMS - 1):                first.Name,
		time.UnixMilli(first.ToMS):                    ps[1].Name,
		time.UnixMilli(last.ToMS - 1):                 last.Name,
		time.UnixMilli(last.ToMS):                     "marks_timed_rest",
		time.Unix(0, 0):                               "marks_timed_rest",
		time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC):   "marks_timed_rest",
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC): "marks_timed_rest",
	} {
		mark := timedMark(scope, at, "m")
		end, err := begin(t, s, mark).Commit(t.Context())
		wantEnd(t, end, err, store.Committed)
		if got := where(t, pool, mark); got != want {
			t.Errorf("%s is in %s, want %s", at, got, want)
		}
		wantMark(t, s, mark, store.Seen)
	}
}

// A producer that writes nanoseconds where milliseconds belong: its messages can be handled
// and buried, and their keys tell them apart.
func TestTimesBeyondTheDatabases(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope, ctx := scopeOf(t, s), t.Context()
	for _, at := range []time.Time{
		time.UnixMilli(time.Now().UnixNano()), time.UnixMilli(-1 << 62), time.UnixMilli(1<<63 - 1),
		time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		plain := plainMark(scope, at.String())
		plain.Time = at
		marks := []store.Mark{plain, timedMark(scope, at, "m"), timedMark(scope, at.Add(time.Hour), "m")}
		u, status, err := s.Begin(ctx, marks)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		for i := range status {
			if status[i] != store.New {
				t.Errorf("%s: mark %d is %s", at, i, status[i])
			}
		}
		if err := s.BuryTx(ctx, u.Tx(), store.DeadLetter{Consumer: "consumer", Time: at, Reason: "no"}); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		end, err := u.Commit(ctx)
		wantEnd(t, end, err, store.Committed)
		wantMark(t, s, plain, store.Seen)
	}
	if dead, err := s.ListDead(ctx, "", 0, 100); err != nil || len(dead) != 5 {
		t.Errorf("%d letters, %v", len(dead), err)
	}
}

func TestRestMovesToItsPartition(t *testing.T) {
	t.Parallel()
	pool := migrated(t) // a year's partition
	s := newStore(t, pool)
	scope := scopeOf(t, s)
	var marks []store.Mark
	for i := range 20 {
		marks = append(marks, timedMark(scope, time.Now().Add(2*year+time.Duration(i)*5*week), "m"))
	}
	stay := timedMark(scope, time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), "m")
	u, _, err := s.Begin(t.Context(), append([]store.Mark{stay}, marks...))
	if err != nil {
		t.Fatal(err)
	}
	end, err := u.Commit(t.Context())
	wantEnd(t, end, err, store.Committed)
	for _, mark := range marks {
		if in := where(t, pool, mark); in != "marks_timed_rest" {
			t.Fatalf("a mark is in %s", in)
		}
	}
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(10*week, 5*year)); err != nil {
		t.Fatal(err)
	}
	for i, mark := range marks {
		if in := where(t, pool, mark); in == "marks_timed_rest" {
			t.Errorf("mark %d has stayed in the rest", i)
		}
		wantMark(t, s, mark, store.Seen)
	}
	if in := where(t, pool, stay); in != "marks_timed_rest" {
		t.Errorf("the mark of 1900 is in %s", in)
	}
	wantMark(t, s, stay, store.Seen)
}

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
				g, err = dedup.NewTx(s.Queued(), "consumer", key, func(_ context.Context, b *pgx.Batch, _ dedup.Message) error {
					b.Queue("insert into effects values ('effect')")
					return nil
				})
			} else {
				g, err = dedup.NewTx(faults, "consumer", key, addEffect)
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
	g, err := dedup.NewTx(s, "consumer", key, addEffect)
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
