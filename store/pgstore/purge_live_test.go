package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// crowd are handlers at full speed that mark in mixed order, until stop.
type crowd struct {
	marked  atomic.Int64
	longest atomic.Int64 // nanoseconds
	faults  atomic.Int64
	stop    func()
}

// startCrowd begins n handlers whose messages have times of the last days, and of some days to come, where
// no partition may be.
func startCrowd(t *testing.T, pool *pgxpool.Pool, n int, scopes []store.Scope, from, to time.Time) *crowd {
	t.Helper()
	s := newStore(t, newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = int32(n) }))
	c := &crowd{}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	c.stop = func() { cancel(); workers.Wait() }
	t.Cleanup(c.stop)
	for i := range n {
		workers.Go(func() {
			for ctx.Err() == nil {
				var marks []store.Mark
				for range 1 + rand.IntN(6) {
					at := from.Add(rand.N(to.Sub(from)))
					marks = append(marks, aged(scopes[rand.IntN(len(scopes))], at, fmt.Sprint(rand.IntN(1000)))...)
				}
				begun := time.Now()
				u, _, err := s.Begin(t.Context(), marks)
				if err == nil && i%4 == 0 {
					_, _, err = u.Next(t.Context(), marks[:1])
				}
				if err == nil {
					_, err = u.Commit(t.Context())
				}
				took := int64(time.Since(begun))
				for longest := c.longest.Load(); took > longest && !c.longest.CompareAndSwap(longest, took); longest = c.longest.Load() {
				}
				if err != nil {
					c.faults.Add(1)
					t.Errorf("%s: %v", s.Fault(err), err)
					return
				}
				c.marked.Add(int64(len(marks)))
			}
		})
	}
	return c
}

// Handlers never see a deadlock or a lock that is not free, while marks of the times at which they
// work are removed, partitions are emptied and dropped under them, and new ones are made.
func TestPurgeBesideHandlers(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s, now := newStore(t, pool), time.Now()
	scopes := []store.Scope{keptScope(t, s, "a", time.Hour), keptScope(t, s, "b", time.Hour), keptScope(t, s, "c", 2*time.Hour)}
	c := startCrowd(t, pool, 16, scopes, now.Add(-14*day), now.Add(3*day))
	purger := newPurger(t, s, pgstore.WithDeleteRate(1_000_000, 100))
	var emptied, dropped int
	var rows int64
	for ahead := 13; ahead >= 0; ahead-- {
		for i, scope := range scopes {
			reach(t, s, scope, 0, now.Add(-time.Duration(ahead)*day-time.Duration(i)*time.Hour))
		}
		done, err := purger.Purge(t.Context())
		if err != nil {
			t.Error(err)
		}
		emptied, dropped, rows = emptied+len(done.Emptied), dropped+len(done.Dropped), rows+done.Rows()
	}
	c.stop()
	if c.marked.Load() < 500 || rows < 100 {
		t.Errorf("%d marks, %d removed, %d partitions emptied and %d dropped: that shows nothing", c.marked.Load(), rows, emptied, dropped)
	}
	t.Logf("%d marks, %d removed, %d partitions emptied and %d dropped, longest message %s", c.marked.Load(), rows, emptied, dropped, time.Duration(c.longest.Load()))
	attached := queryOne[int64](t, pool, "select count(*) from pg_inherits where inhparent = 'semel.marks_timed'::regclass")
	if n := len(partitions(t, pool)); int(attached) != n+1 {
		t.Errorf("%d partitions are attached and %d recorded", attached, n)
	}
}

// A transaction that holds the partition, or the table, for long keeps it from being dropped, and
// not the handlers from working.
func TestHandlersDoNotStandBehindADrop(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{
		"the partition": "select from semel.%s limit 1",
		"the table":     "delete from semel.marks_timed where scope = 12345 and key <= '00000000-0000-0000-0000-000000000000'",
		"the rest":      "select from semel.marks_timed_rest limit 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := withDays(t)
			s, now := newStore(t, pool), time.Now()
			scope := keptScope(t, s, "consumer", day)
			old := timedMark(scope, now.Add(-6*day), "m")
			commitMarks(t, s, old)
			partition := partitionOf(t, pool, now.Add(-6*day)).Name
			reach(t, s, scope, 0, now)
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			if name == "the partition" {
				hold = fmt.Sprintf(hold, partition)
			}
			if _, err := tx.Exec(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
			c := startCrowd(t, pool, 4, []store.Scope{scope}, now.Add(-time.Hour), now)
			for range 3 {
				done := purge(t, s, pgstore.WithDropWait(100*time.Millisecond))
				if len(done.Locked) == 0 {
					t.Errorf("nothing is said to be locked: %+v", done)
				}
				for _, dropped := range done.Dropped {
					if dropped == partition || name != "the partition" {
						t.Errorf("%s was dropped", dropped)
					}
				}
			}
			c.stop()
			if longest := time.Duration(c.longest.Load()); longest > 5*time.Second || c.marked.Load() == 0 {
				t.Errorf("%d marks, and a handler waited %s", c.marked.Load(), longest)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			purge(t, s, pgstore.WithDropWait(5*time.Second))
			for _, p := range partitions(t, pool) {
				if p.Name == partition {
					t.Errorf("%s is still there", p.Name)
				}
			}
			wantMark(t, s, old, store.Late)
		})
	}
}

// A purger that dies anywhere has done some of its steps and none by half, and the next one goes on.
func TestPurgeIsKilledAnywhere(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s, now := newStore(t, pool), time.Now()
	scope, forever := keptScope(t, s, "consumer", day), keptScope(t, s, "forever", store.Forever)
	fill(t, pool, scope, now.Add(-13*day), now, 10_000)
	fill(t, pool, forever, now.Add(-4*day), now, 500)
	exec(t, pool, "insert into semel.marks_plain (scope, key, at) select $1, gen_random_uuid(), now() - interval '5 days' from generate_series(1, 5000)", int32(scope))
	victims := newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "victim"
		c.MaxConns = 1
	})
	purger := newPurger(t, newStore(t, victims), pgstore.WithDeleteRate(1_000_000, 200))
	killed := 0
	for age := 12 * day; ; age -= day / 8 {
		reach(t, s, scope, 0, now.Add(-max(age, 0)))
		kill, stop := context.WithCancel(t.Context())
		var killer sync.WaitGroup
		if age > 0 {
			killer.Go(func() {
				for sleepFor(kill, rand.N(10*time.Millisecond)) {
					_, _ = pool.Exec(kill, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim' and datname = current_database()")
				}
			})
		}
		done, err := purger.Purge(t.Context())
		stop()
		killer.Wait()
		if err != nil {
			killed++
		}
		if age <= 0 && err == nil && !done.Elsewhere {
			break
		}
		// Its turn stays claimed for a minute where even the release was cut off.
		exec(t, pool, "update semel.leases set released = true")
		if torn := queryOne[int64](t, pool, `select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid
			full join semel.mark_partitions p on p.name = c.relname
			where (i.inhparent = 'semel.marks_timed'::regclass or i.inhparent is null) and (p.name is null) <> (c.relname is not distinct from 'marks_timed_rest')`); torn != 0 {
			t.Fatalf("%d partitions are there and not recorded, or the reverse", torn)
		}
		if n := queryOne[int64](t, pool, "select count(*) from semel.scopes where safe_ms > purged_ms"); n != 0 {
			t.Fatal("marks were removed that nothing was said of")
		}
	}
	if killed < 5 {
		t.Errorf("it died only %d times", killed)
	}
	if n := queryOne[int64](t, pool, "select count(*) from semel.marks_timed where scope = $1 and key < $2::uuid", int32(scope), lowest(now.Add(-3*day).UnixMilli()).String()); n != 0 {
		t.Errorf("%d old marks stay", n)
	}
	if n := rowsOf(t, pool, "marks_timed", forever); n != 500 {
		t.Errorf("%d of 500 marks that are kept for ever are left", n)
	}
	if n := rowsOf(t, pool, "marks_plain", scope); n != 0 {
		t.Errorf("%d old plain marks stay", n)
	}
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Purgers of several processes share the work of one.
func TestSeveralPurgers(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s, now := newStore(t, pool), time.Now()
	scope := keptScope(t, s, "consumer", day)
	exec(t, pool, "insert into semel.marks_plain (scope, key, at) select $1, gen_random_uuid(), now() - interval '5 days' from generate_series(1, 1500)", int32(scope))
	reach(t, s, scope, 0, now)
	ctx, stop := context.WithCancel(t.Context())
	begun := time.Now()
	var purgers sync.WaitGroup
	for range 4 {
		p := newPurger(t, s, pgstore.WithPurgeInterval(10*time.Millisecond), pgstore.WithDeleteRate(1000, 100))
		purgers.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, func() bool { return rowsOf(t, pool, "marks_plain", scope) == 0 })
	if took := time.Since(begun); took < 1300*time.Millisecond {
		t.Errorf("1500 rows went in %s, at 1000 a second", took)
	}
	stop()
	purgers.Wait()
}

// The purger of a process uses one connection of a pool, and none between two steps.
func TestPurgeUsesOneConnection(t *testing.T) {
	t.Parallel()
	pool := withDays(t, oneConnection)
	s, now := newStore(t, pool), time.Now()
	scope := keptScope(t, s, "consumer", day)
	for _, age := range []time.Duration{300 * day, 6 * day, 5 * day} {
		commitMarks(t, s, aged(scope, now.Add(-age), "m"+age.String())...)
	}
	reach(t, s, scope, 0, now)
	purge(t, s)
	wantRows(t, pool, scope, 0, 0)

	exec(t, pool, "insert into semel.marks_plain (scope, key, at) select $1, gen_random_uuid(), now() - interval '5 days' from generate_series(1, 100)", int32(scope))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := newPurger(t, s, pgstore.WithDeleteRate(1, 10)).Purge(ctx)
		ended <- err
	}()
	await(t, func() bool { return rowsOf(t, pool, "marks_plain", scope) == 90 })
	begun := time.Now()
	commitMarks(t, s, plainMark(scope, "meanwhile"))
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a handler waited %s for the connection of a purger that sleeps", took)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the pass ends with %v", err)
	}
	// The turn was given back.
	if done, err := newPurger(t, s).Purge(t.Context()); err != nil || done.Elsewhere {
		t.Errorf("%+v, %v", done, err)
	}
}
