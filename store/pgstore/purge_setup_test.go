package pgstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestPurgerRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := newStore(t, newPool(t, "postgres://nobody@127.0.0.1:1/nothing"))
	for want, opt := range map[string]pgstore.PurgeOption{
		"an option is nil":      nil,
		"WithPurgeInterval(0s)": pgstore.WithPurgeInterval(0),
		"0 rows a second":       pgstore.WithDeleteRate(0, 1000),
		"steps of 0 rows":       pgstore.WithDeleteRate(1000, 0),
		"steps of 1000000 rows": pgstore.WithDeleteRate(1000, 1_000_000),
		"WithDropWait(0s)":      pgstore.WithDropWait(0),
		"WithDropWait(1h0m0s)":  pgstore.WithDropWait(time.Hour),
		"WithSnapshotWait(-1s)": pgstore.WithSnapshotWait(-time.Second),
		"the logger is nil":     pgstore.WithPurgeLogger(nil),
	} {
		if _, err := pgstore.NewPurger(s, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := pgstore.NewPurger(nil); err == nil || !strings.Contains(err.Error(), "the store is nil") {
		t.Error(err)
	}
}

// With the rights of a handler, and without seeing other roles' sessions, a purger does all but
// what needs the owner of the tables, and is held back by other roles' transactions.
func TestPurgerThatOwnsNothing(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	role, limited := asRole(t, pool)
	exec(t, pool, fmt.Sprintf("grant usage on schema semel to %s; grant select, insert, update, delete on all tables in schema semel to %s", role, role))
	s, now := newStore(t, limited), time.Now()
	scope := keptScope(t, s, "consumer", day)
	commitMarks(t, s, aged(scope, now.Add(-6*day), "m")...)
	commitMarks(t, s, aged(scope, now.Add(-60*day), "n")...)
	reach(t, s, scope, 0, now)

	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "select from semel.scopes"); err != nil {
		t.Fatal(err)
	}
	if seen := queryOne[string](t, limited, "select coalesce(min(state), 'hidden') from pg_stat_activity where backend_xmin is not null and pid <> pg_backend_pid() and datname = current_database()"); seen != "hidden" {
		t.Fatalf("the role sees the state of other roles' sessions: %s", seen)
	}
	if done := purge(t, s, pgstore.WithSnapshotWait(0)); done.Snapshot == nil || !done.Snapshot.Since.IsZero() {
		t.Errorf("held back by %+v", done.Snapshot)
	}
	wantRows(t, pool, scope, 2, 2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := purge(t, s)
	wantRows(t, pool, scope, 1, 0) // the one that lies in a partition
	if !done.NotOwner || len(done.Made) != 0 || done.MadeUntil.IsZero() {
		t.Errorf("%+v", done)
	}
	// The role that migrates does the rest.
	if done := purge(t, newStore(t, pool)); done.NotOwner || len(done.Emptied) != 1 {
		t.Errorf("%+v", done)
	}
	wantRows(t, pool, scope, 0, 0)
}

func TestPurgerKeepsPartitionsAhead(t *testing.T) {
	t.Parallel()
	pool := withDays(t) // four days ahead
	s := newStore(t, pool)
	done := purge(t, s)
	ps := partitions(t, pool)
	until := time.UnixMilli(ps[len(ps)-1].ToMS)
	if len(done.Made) < 9 || !done.MadeUntil.Equal(until) || until.Before(time.Now().Add(13*day)) || until.After(time.Now().Add(15*day)) {
		t.Errorf("made %v, until %s; the last one ends at %s", done.Made, done.MadeUntil, until)
	}
	for i, p := range ps {
		if p.ToMS-p.FromMS != day.Milliseconds() || i > 0 && p.FromMS != ps[i-1].ToMS {
			t.Errorf("partition %d is from %d to %d", i, p.FromMS, p.ToMS)
		}
	}
	if done := purge(t, s); len(done.Made) != 0 {
		t.Errorf("a second pass makes %v", done.Made)
	}
	scope := scopeOf(t, s)
	mark := timedMark(scope, time.Now().Add(12*day), "m")
	commitMarks(t, s, mark)
	if in := where(t, pool, mark); in == "marks_timed_rest" {
		t.Error("a mark of a time ahead is in the rest")
	}
}

// A migration at work is not waited for.
func TestPurgeWhileAMigrationWorks(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s, now := newStore(t, pool), time.Now()
	scope := keptScope(t, s, "consumer", day)
	commitMarks(t, s, aged(scope, now.Add(-6*day), "m")...)
	reach(t, s, scope, 0, now)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if err := pgstore.Migrate(t.Context(), tx, pgstore.WithPartitions(day, 8*day)); err != nil {
		t.Fatal(err)
	}
	done := purge(t, s)
	if len(done.Dropped)+len(done.Made) != 0 {
		t.Errorf("dropped %v and made %v beside the migration", done.Dropped, done.Made)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done := purge(t, s); len(done.Dropped) == 0 || len(done.Made) == 0 {
		t.Errorf("dropped %v and made %v after the migration", done.Dropped, done.Made)
	}
}

func TestRunEndsWhereTablesAreMissing(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	exec(t, pool, "drop table semel.reaches")
	s := newStore(t, pool)
	err := newPurger(t, s, pgstore.WithPurgeInterval(time.Millisecond)).Run(t.Context())
	if s.Fault(err) != store.FaultSetup || !strings.Contains(err.Error(), "run pgstore.Migrate") {
		t.Errorf("%v (%s)", err, s.Fault(err))
	}
}

func TestRunSaysWhatItDid(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s, now := newStore(t, pool), time.Now()
	scope := keptScope(t, s, "consumer", day)
	commitMarks(t, s, aged(scope, now.Add(-6*day), "m")...)
	reach(t, s, scope, 0, now)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines := &logged{seen: make(chan string, 100)}
	ended := make(chan error)
	go func() {
		ended <- newPurger(t, s, pgstore.WithPurgeInterval(time.Millisecond), pgstore.WithPurgeLogger(slog.New(slog.NewTextHandler(lines, nil)))).Run(ctx)
	}()
	if line := <-lines.seen; !strings.Contains(line, "msg=purged marks=1 ") || !strings.Contains(line, "emptied=[marks_timed_") {
		t.Errorf("it says %s", line)
	}
	stop()
	for done := false; !done; {
		select {
		case <-lines.seen:
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			done = true
		}
	}
}

type logged struct{ seen chan string }

func (l *logged) Write(p []byte) (int, error) {
	l.seen <- string(p)
	return len(p), nil
}
