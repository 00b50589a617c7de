package pgstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

const day = 24 * time.Hour

// withDays is a database whose partitions are days, from two weeks ago until four days from now.
func withDays(t *testing.T, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t, servertest.Postgres(t), configure...)
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(day, 4*day)); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "create table effects (name text not null)")
	return pool
}

func newPurger(t *testing.T, s *pgstore.Store, opts ...pgstore.PurgeOption) *pgstore.Purger {
	t.Helper()
	p, err := pgstore.NewPurger(s, append([]pgstore.PurgeOption{pgstore.WithSnapshotWait(time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func purge(t *testing.T, s *pgstore.Store, opts ...pgstore.PurgeOption) pgstore.Purged {
	t.Helper()
	done, err := newPurger(t, s, opts...).Purge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if done.Elsewhere {
		t.Fatal("another purger is said to be at work")
	}
	return done
}

func keptScope(t *testing.T, s *pgstore.Store, consumer string, keep time.Duration) store.Scope {
	t.Helper()
	scope, err := s.Scope(t.Context(), consumer, keep)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func reach(t *testing.T, s *pgstore.Store, scope store.Scope, partition int, newest time.Time) {
	t.Helper()
	if err := s.Reached(t.Context(), scope, []store.Reach{{Log: "log", Partition: partition, Newest: newest}}); err != nil {
		t.Fatal(err)
	}
}

// aged are marks with a time in their key and without.
func aged(scope store.Scope, at time.Time, name string) []store.Mark {
	plain := plainMark(scope, name)
	plain.Time = at
	return []store.Mark{timedMark(scope, at, name), plain}
}

func commitMarks[TTx any](t *testing.T, s store.Marks[TTx], marks ...store.Mark) {
	t.Helper()
	u, status, err := s.Begin(t.Context(), marks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Rollback(context.Background()) })
	for i := range status {
		if status[i] != store.New {
			t.Fatalf("mark %d is %s, want new", i, status[i])
		}
	}
	end, err := u.Commit(t.Context())
	wantEnd(t, end, err, store.Committed)
}

// rowsOf counts the rows of one scope in a table.
func rowsOf(t *testing.T, pool *pgxpool.Pool, table string, scope store.Scope) int {
	t.Helper()
	return int(queryOne[int64](t, pool, "select count(*) from semel."+pgx.Identifier{table}.Sanitize()+" where scope = $1", int32(scope)))
}

func wantRows(t *testing.T, pool *pgxpool.Pool, scope store.Scope, timed, plain int) {
	t.Helper()
	if a, b := rowsOf(t, pool, "marks_timed", scope), rowsOf(t, pool, "marks_plain", scope); a != timed || b != plain {
		t.Errorf("scope %d has %d timed and %d plain marks, want %d and %d", scope, a, b, timed, plain)
	}
}

func byConsumer(t *testing.T, done pgstore.Purged, consumer string) pgstore.ScopePurged {
	t.Helper()
	for _, s := range done.Scopes {
		if s.Consumer == consumer {
			return s
		}
	}
	t.Fatalf("nothing is said of %s", consumer)
	return pgstore.ScopePurged{}
}

// fill stores marks of one scope without a guard.
func fill(t *testing.T, pool *pgxpool.Pool, scope store.Scope, from, to time.Time, n int) {
	t.Helper()
	step := to.Sub(from) / time.Duration(n)
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{int32(scope), store.TimedKey(from.Add(time.Duration(i)*step), []byte(fmt.Sprint(i))).ID.String()}
	}
	_, err := pool.Exec(t.Context(), "create table if not exists filling (scope int, key text)")
	if err == nil {
		_, err = pool.CopyFrom(t.Context(), pgx.Identifier{"filling"}, []string{"scope", "key"}, pgx.CopyFromRows(rows))
	}
	if err == nil {
		_, err = pool.Exec(context.WithoutCancel(t.Context()), "with f as (delete from filling returning scope, key::uuid) insert into semel.marks_timed (scope, key) select * from f")
	}
	if err != nil {
		t.Fatal(err)
	}
}
