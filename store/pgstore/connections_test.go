package pgstore_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// session is all that a session could be left with.
func session(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select name, setting from pg_settings
		union all select 'lock ' || locktype, mode from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'
		union all select 'channel', c from pg_listening_channels() c
		union all select 'table ' || relname, '' from pg_class where relpersistence = 't'`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { all[name] = value; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNothingStaysInTheSession(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool, pgstore.WithLockWait(1234*time.Millisecond))
	ctx, scope, name := t.Context(), scopeOf(t, s), named("mark %d")
	exec(t, pool, "set lock_timeout = '4321ms'")
	before := session(t, pool)

	fresh := func() store.Mark { return plainMark(scope, name()) }
	for what, act := range map[string]func() error{
		"commit": func() error {
			_, err := begin(t, s, fresh()).Commit(ctx)
			return err
		},
		"rollback": func() error { return begin(t, s, fresh()).Rollback(ctx) },
		"next": func() error {
			u := begin(t, s, timedMark(scope, time.Now(), name()))
			_, _, err := u.Next(ctx, []store.Mark{fresh(), fresh(), timedMark(scope, time.Now(), name())})
			_, commitErr := u.Commit(ctx)
			return errors.Join(err, commitErr)
		},
		"queued": func() error {
			u := begin(t, s.Queued(), fresh())
			u.Tx().Queue("insert into effects values ('effect')")
			_, _, err := u.Next(ctx, []store.Mark{fresh()})
			_, commitErr := u.Commit(ctx)
			return errors.Join(err, commitErr)
		},
		"a failed handler": func() error {
			u := begin(t, s, fresh())
			_, _ = u.Tx().Exec(ctx, "select 1/0")
			_, _ = u.Commit(ctx)
			return nil
		},
		"a lease": func() error {
			c, err := s.Claim(ctx, store.LeaseKey{1}, store.ClaimParams{Lease: time.Minute, Keep: time.Minute})
			return errors.Join(err, s.Release(ctx, c))
		},
	} {
		if err := act(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if after := session(t, pool); !maps.Equal(before, after) {
			for k := range after {
				if before[k] != after[k] {
					t.Errorf("%s: %s is %q, was %q", what, k, after[k], before[k])
				}
			}
		}
	}
}

func TestOneConnectionForAMessage(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool)
	g := newGuard(t, s, addEffect)
	if err := g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, act := range map[string]func() []dedup.Result{
		"one":   func() []dedup.Result { return []dedup.Result{g.Process(t.Context(), message("a"))} },
		"each":  func() []dedup.Result { return g.ProcessEach(t.Context(), []dedup.Message{message("b"), message("c")}) },
		"batch": func() []dedup.Result { return g.ProcessBatch(t.Context(), []dedup.Message{message("d"), message("e")}) },
		"bury":  func() []dedup.Result { return []dedup.Result{g.Bury(t.Context(), message("f"), errors.New("no"))} },
	} {
		before := pool.Stat().AcquireCount()
		for _, r := range act() {
			if !r.Outcome.Settled() {
				t.Errorf("%s: %s, %v", what, r.Outcome, r.Err)
			}
		}
		if n := pool.Stat().AcquireCount() - before; n != 1 {
			t.Errorf("%s: %d connections were taken", what, n)
		}
	}
	wantEffects(t, pool, 5)
}

func TestExhaustedPoolIsAnOutage(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	one := newPool(t, pool.Config().ConnString(), oneConnection)
	s := newStore(t, one, pgstore.WithAcquireWait(50*time.Millisecond))
	g := newGuard(t, s, addEffect)
	if err := g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := one.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const sentence = "no connection was free within 50ms (pool of 1, 1 in use)"
	start := time.Now()
	r := g.Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultOutage)
	if took := time.Since(start); took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("it gave up after %s, want 50ms", took)
	}
	if !strings.Contains(r.Err.Error(), sentence) {
		t.Errorf("the error is %q, want %q in it", r.Err, sentence)
	}
	_, err = s.Claim(t.Context(), store.LeaseKey{1}, store.ClaimParams{Lease: time.Minute, Keep: time.Minute})
	if err == nil || s.Fault(err) != store.FaultOutage || !strings.Contains(err.Error(), sentence) {
		t.Errorf("Claim: %v (%s)", err, s.Fault(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantOutcome(t, g.Process(ctx, message("m")), dedup.Failed, store.FaultCanceled)

	conn.Release()
	wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Applied, 0)
}

func TestUnreachableDatabaseIsAnOutage(t *testing.T) {
	t.Parallel()
	dsn := servertest.Postgres(t)
	proxy := servertest.Proxy(t, dsn)
	frozen := servertest.Proxy(t, dsn)
	frozen.Freeze()
	closed := newPool(t, dsn)
	closed.Close()
	pools := map[string]*pgxpool.Pool{
		"nobody listens":      newPool(t, proxy.DSN()),
		"nobody answers":      newPool(t, frozen.DSN()),
		"the pool was closed": closed,
	}
	if err := proxy.Close(); err != nil {
		t.Fatal(err)
	}
	for what, pool := range pools {
		s := newStore(t, pool, pgstore.WithAcquireWait(100*time.Millisecond))
		g := newGuard(t, s, addEffect)
		err := g.Check(t.Context())
		if err == nil || s.Fault(err) != store.FaultOutage {
			t.Errorf("%s: Check: %v (%s)", what, err, s.Fault(err))
		}
		wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Failed, store.FaultOutage)
	}
	frozen.Thaw()
}
