package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func scopeOf(t *testing.T, s interface {
	Scope(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error)
}) store.Scope {
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

func timedMark(scope store.Scope, at time.Time, name string) store.Mark {
	return store.Mark{Scope: scope, Key: store.TimedKey(at, []byte(name)), Time: at}
}

// begin opens a unit whose mark must be new.
func begin[TTx any](t *testing.T, s store.Marks[TTx], mark store.Mark) store.Unit[TTx] {
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
func wantMark[TTx any](t *testing.T, s store.Marks[TTx], mark store.Mark, want store.Status) {
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

func wantEffects(t *testing.T, pool *pgxpool.Pool, want int) {
	t.Helper()
	if n := queryOne[int64](t, pool, "select count(*) from effects"); int(n) != want {
		t.Errorf("%d effects, want %d", n, want)
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
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		t.Errorf("the error is %v, want SQLSTATE %s", err, code)
	}
}

// awaitWaiting returns when n sessions of the pool's database wait for a lock.
func awaitWaiting(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	await(t, func() bool {
		return int(queryOne[int64](t, pool, `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`)) >= n
	})
}

// awaitGone returns when a server process has ended.
func awaitGone(t *testing.T, pool *pgxpool.Pool, pid int32) {
	t.Helper()
	await(t, func() bool {
		return queryOne[int64](t, pool, "select count(*) from pg_stat_activity where pid = $1", pid) == 0
	})
}

// await asks the server again and again, because it gives no signal.
func await(t *testing.T, ready func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ready() {
		if time.Now().After(deadline) {
			t.Error("what was waited for did not come")
			return
		}
		time.Sleep(2 * time.Millisecond)
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

var withShortLockWait = pgstore.WithLockWait(100 * time.Millisecond)
