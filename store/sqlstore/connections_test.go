package sqlstore_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/sqlstore"
)

// With a single connection everything would hang that takes a second one.
func TestOneConnectionForAMessage(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		g := newGuard(t, p.openOn(p.db(1), sqlstore.WithAcquireWait(time.Second)), addEffect)
		for what, act := range map[string]func() []dedup.Result{
			"one":   func() []dedup.Result { return []dedup.Result{g.Process(t.Context(), message("a"))} },
			"each":  func() []dedup.Result { return g.ProcessEach(t.Context(), []dedup.Message{message("b"), message("c")}) },
			"batch": func() []dedup.Result { return g.ProcessBatch(t.Context(), []dedup.Message{message("d"), message("e")}) },
			"bury":  func() []dedup.Result { return []dedup.Result{g.Bury(t.Context(), message("f"), errors.New("no"))} },
		} {
			for _, r := range act() {
				if !r.Outcome.Settled() {
					t.Errorf("%s: %s, %v", what, r.Outcome, r.Err)
				}
			}
		}
		p.wantEffects(5)
	})
}

func TestExhaustedPoolIsAnOutage(t *testing.T) {
	t.Parallel()
	p := fresh(t, "pgx")
	db := p.db(1)
	g := newGuard(t, p.openOn(db, sqlstore.WithAcquireWait(50*time.Millisecond)), addEffect)
	if err := g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r := g.Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultOutage)
	if took := time.Since(start); took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("it gave up after %s, want 50ms", took)
	}
	if sentence := "no connection was free within 50ms (at most 1, 1 in use)"; !strings.Contains(r.Err.Error(), sentence) {
		t.Errorf("the error is %q, want %q in it", r.Err, sentence)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantOutcome(t, g.Process(ctx, message("m")), dedup.Failed, store.FaultCanceled)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Applied, 0)
}

func TestUnreachableDatabaseIsAnOutage(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		proxy := servertest.Proxy(t, p.dsn)
		closed := p.db(1)
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		dbs := map[string]*sql.DB{"nobody listens": p.dbOn(proxy.DSN(), 1), "the sql.DB was closed": closed}
		if driver == "pgx" {
			frozen := servertest.Proxy(t, p.dsn)
			frozen.Freeze()
			defer frozen.Thaw()
			dbs["nobody answers"] = p.dbOn(frozen.DSN(), 1)
		}
		if err := proxy.Close(); err != nil {
			t.Fatal(err)
		}
		for what, db := range dbs {
			s := p.openOn(db, sqlstore.WithAcquireWait(100*time.Millisecond))
			g := newGuard(t, s, addEffect)
			if err := g.Check(t.Context()); err == nil || s.Fault(err) != store.FaultOutage {
				t.Errorf("%s: Check: %v (%s)", what, err, s.Fault(err))
			}
			wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Failed, store.FaultOutage)
		}
	})
}

// Connections that have died in the pool, as all do when a server restarts, are not the message's
// affair: those the driver knows of are passed over.
func TestDeadConnectionsInThePool(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		db := p.db(3)
		s := p.openOn(db)
		scope := scopeOf(t, s)
		var units []store.Unit[*sql.Tx]
		for i := range 3 {
			units = append(units, begin(t, s, plainMark(scope, string(rune('a'+i)))))
		}
		for _, u := range units {
			if err := u.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		queryOne[int64](t, p.admin, "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1", p.schema)
		g := newGuard(t, p.openOn(db), addEffect)
		await(t, func() bool {
			r := g.Process(t.Context(), message("m"))
			if !r.Outcome.Settled() {
				wantOutcome(t, r, dedup.Failed, store.FaultOutage)
			}
			return r.Outcome.Settled()
		})
		p.wantEffects(1)
	})
}

func TestTablesThatAreMissingAreASetupFault(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open(sqlstore.WithSchema("elsewhere"))
		_, err := s.Scope(t.Context(), "consumer", store.Forever)
		if f := s.Fault(err); f != store.FaultSetup || !strings.Contains(err.Error(), "run pgstore.Migrate") {
			t.Errorf("%v is %s, want setup", err, f)
		}
		p.exec("delete from semel.migrations where version > 5")
		_, err = p.open().Scope(t.Context(), "consumer", store.Forever)
		if f := s.Fault(err); f != store.FaultSetup || !strings.Contains(err.Error(), "version 5") {
			t.Errorf("%v is %s, want setup", err, f)
		}
	})
}

// A statement_timeout below the limit on lock waits ends the wait for a rival earlier.
func TestStatementTimeoutInTheWaitIsBusy(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		mark := plainMark(scopeOf(t, s), "m")
		begin(t, s, mark)
		hasty := p.openOn(p.db(1, "statement_timeout", "100ms"))
		_, _, err := hasty.Begin(t.Context(), []store.Mark{mark})
		if driver == "postgres" && errors.Is(err, sqldriver.ErrBadConn) {
			// Now and then lib/pq gives the connection up instead of telling the server's error. That is an
			// outage, which spends no attempt either.
			return
		}
		wantCode(t, err, "57014")
		if f := hasty.Fault(err); f != store.FaultBusy {
			t.Errorf("%v is %s, want busy", err, f)
		}
	})
}

func TestLimitsOfTheTransaction(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open(sqlstore.WithLockWait(time.Hour), sqlstore.WithStatementLimit(7*time.Second), sqlstore.WithIdleLimit(8*time.Second))
		// A letter that runs again does so under the same limits.
		refused := dedup.Permanent(errors.New("not yet"))
		g := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, _ dedup.Message) error {
			for name, want := range map[string]string{"lock_timeout": "1h", "statement_timeout": "7s", "idle_in_transaction_session_timeout": "8s"} {
				var got string
				if err := tx.QueryRowContext(ctx, "show "+name).Scan(&got); err != nil {
					return err
				}
				if got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			return refused
		})
		r := g.Process(t.Context(), message("m"))
		wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		wantOutcome(t, g.Bury(t.Context(), message("m"), r.Err), dedup.Buried, 0)
		letters, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 1)
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		refused = nil
		wantOutcome(t, g.Replay(t.Context(), letters[0].ID), dedup.Applied, 0)
	})
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open(sqlstore.WithIsolation(sql.LevelSerializable))
		g := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			var level string
			if err := tx.QueryRowContext(ctx, "show transaction_isolation").Scan(&level); err != nil || level != "serializable" {
				t.Errorf("the level is %s (%v)", level, err)
			}
			return addEffect(ctx, tx, m)
		})
		for _, r := range g.ProcessEach(t.Context(), []dedup.Message{message("m"), message("n")}) {
			wantOutcome(t, r, dedup.Applied, 0)
		}
		wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Duplicate, 0)
		p.wantEffects(2)
	})
}

// A connection that was closed would be made anew for every message that fails.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		db := p.db(1)
		s := p.openOn(db)
		scope, name := scopeOf(t, s), named("mark %d")
		p.exec("create table children (parent int unique deferrable initially deferred)")
		pid := func() (n int) {
			if err := db.QueryRowContext(t.Context(), "select pg_backend_pid()").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := pid()
		for what, act := range map[string]func(u store.Unit[*sql.Tx]){
			"rollback": func(u store.Unit[*sql.Tx]) { _ = u.Rollback(t.Context()) },
			"commit":   func(u store.Unit[*sql.Tx]) { _, _ = u.Commit(t.Context()) },
			"next": func(u store.Unit[*sql.Tx]) {
				_, _, _ = u.Next(t.Context(), []store.Mark{plainMark(scope, name())})
				_, _ = u.Commit(t.Context())
			},
			"a failed statement": func(u store.Unit[*sql.Tx]) {
				_ = statement("select 1/0")(t.Context(), u.Tx())
				_, _ = u.Commit(t.Context())
			},
			"a refused COMMIT": func(u store.Unit[*sql.Tx]) {
				_ = statement("insert into children values (1), (1)")(t.Context(), u.Tx())
				end, err := u.Commit(t.Context())
				wantEnd(t, end, err, store.RolledBack)
			},
		} {
			act(begin(t, s, plainMark(scope, name())))
			if after := pid(); after != before {
				t.Errorf("%s: the session is another one", what)
				before = after
			}
		}
	})
}
