package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
)

func TestDeferredConstraintFailsTheMessage(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		p.exec("create table parents (id int primary key)")
		p.exec("create table children (parent int references parents deferrable initially deferred)")
		s := p.open()
		scope, ctx := scopeOf(t, s), t.Context()
		orphan := statement("insert into children values (1)")

		u := begin(t, s, plainMark(scope, "m"))
		if err := orphan(ctx, u.Tx()); err != nil {
			t.Fatal(err)
		}
		end, err := u.Commit(ctx)
		wantEnd(t, end, err, store.RolledBack)
		wantCode(t, err, "23503")

		u = begin(t, s, plainMark(scope, "m"))
		if err := orphan(ctx, u.Tx()); err != nil {
			t.Fatal(err)
		}
		end, _, err = u.Next(ctx, []store.Mark{plainMark(scope, "n")})
		wantEnd(t, end, err, store.RolledBack)
		wantCode(t, err, "23503")
		wantMark(t, s, plainMark(scope, "m"), store.New)
		wantMark(t, s, plainMark(scope, "n"), store.New)

		r := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, _ dedup.Message) error { return orphan(ctx, tx) }).Process(ctx, message("m"))
		wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		wantCode(t, r.Err, "23503")
	})
}

func TestSwallowedErrorFailsTheMessage(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		r := newGuard(t, p.open(), func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			if err := addEffect(ctx, tx, m); err != nil {
				return err
			}
			_ = statement("select 1/0")(ctx, tx)
			return nil
		}).Process(t.Context(), message("m"))
		wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		wantCode(t, r.Err, "25P02")
		p.wantEffects(0)
	})
}

// Rows that are left unread are closed by database/sql, but only when the transaction ends. Nothing
// is committed that was not asked for, and nothing acknowledged.
func TestUnreadRows(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		leave := func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			if err := addEffect(ctx, tx, m); err != nil {
				return err
			}
			rows, err := tx.QueryContext(ctx, "select n from generate_series(1, 100000) n where n <> $1", -1)
			if err == nil && !rows.Next() {
				err = rows.Err()
			}
			return err
		}
		r := newGuard(t, s, leave).Process(t.Context(), message("m"))
		if r.Outcome.Settled() {
			t.Errorf("the message is %s (%v)", r.Outcome, r.Err)
		}
		if driver == "pgx" {
			wantOutcome(t, r, dedup.Failed, store.FaultHandler)
			p.wantEffects(0)
		}
		wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("another")), dedup.Applied, 0)
	})
}

// terminate ends the session of a transaction and returns when it is gone.
func (p *place) terminate(tx *sql.Tx) {
	p.t.Helper()
	var pid int32
	if err := tx.QueryRow("select pg_backend_pid()").Scan(&pid); err != nil {
		p.t.Error(err)
		return
	}
	queryOne[bool](p.t, p.admin, "select pg_terminate_backend($1)", pid)
	p.awaitGone(pid)
}

func (p *place) awaitGone(pid int32) {
	p.t.Helper()
	await(p.t, func() bool {
		return queryOne[int64](p.t, p.admin, "select count(*) from pg_stat_activity where pid = $1", pid) == 0
	})
}

func TestTerminatedSessionIsAnOutage(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.openOn(p.db(1))
		for name, handler := range map[string]dedup.TxHandlerFunc[*sql.Tx]{
			"the handler hands the error on": func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
				p.terminate(tx)
				return addEffect(ctx, tx, m)
			},
			"the handler has noticed nothing": func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
				err := addEffect(ctx, tx, m)
				p.terminate(tx)
				return err
			},
		} {
			r := newGuard(t, s, handler).Process(t.Context(), message(name))
			wantOutcome(t, r, dedup.Failed, store.FaultOutage)
		}
		// Where it hides the error, it is on the safe side to count it: were that an outage, a handler
		// whose own deadline passes would have its message come for ever.
		r := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			p.terminate(tx)
			_ = addEffect(ctx, tx, m)
			return errors.New("the booking did not work")
		}).Process(t.Context(), message("hidden"))
		wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		p.wantEffects(0)
		wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("hidden")), dedup.Applied, 0)
		p.wantEffects(1)
	})
}

// A handler that dawdles would be ended next time, too. lib/pq does not say what ended the session.
func TestIdleInTransaction(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.openOn(p.db(1))
		r := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			var pid int32
			if err := tx.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			if err := statement("set local idle_in_transaction_session_timeout = '50ms'")(ctx, tx); err != nil {
				return err
			}
			p.awaitGone(pid)
			return nil
		}).Process(t.Context(), message("m"))
		if driver == "pgx" {
			wantOutcome(t, r, dedup.Failed, store.FaultHandler)
			wantCode(t, r.Err, "25P03")
		} else {
			wantOutcome(t, r, dedup.Failed, store.FaultOutage)
		}
	})
}

// A deadline of the handler's own closes the connection and is the handler's failure, also where it
// makes an error of its own of it, or passes over it: the message would come for ever otherwise.
func TestHandlersOwnDeadline(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		hurry := func(ctx context.Context, tx *sql.Tx) error {
			return statement("select pg_sleep(60)")(p.untilAsleep(ctx, tx), tx)
		}
		for name, h := range map[string]dedup.TxHandlerFunc[*sql.Tx]{
			"handed on": func(ctx context.Context, tx *sql.Tx, _ dedup.Message) error { return hurry(ctx, tx) },
			"hidden": func(ctx context.Context, tx *sql.Tx, _ dedup.Message) error {
				_ = hurry(ctx, tx)
				return errors.New("the lookup took too long")
			},
			"passed over": func(ctx context.Context, tx *sql.Tx, _ dedup.Message) error {
				_ = hurry(ctx, tx)
				return nil
			},
			"passed over, and the next one handed on": func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
				_ = hurry(ctx, tx)
				return addEffect(ctx, tx, m)
			},
		} {
			t.Run(name, func(t *testing.T) {
				r := newGuard(t, s, h).Process(t.Context(), message(name))
				want := store.FaultHandler
				if driver == "postgres" && strings.HasSuffix(name, "the next one handed on") {
					want = store.FaultOutage // lib/pq says the same of a connection that was lost
				}
				wantOutcome(t, r, dedup.Failed, want)
			})
		}
		p.wantEffects(0)

		ctx, cancel := context.WithCancel(t.Context())
		r := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			cancel()
			return addEffect(ctx, tx, m)
		}).Process(ctx, message("m"))
		wantOutcome(t, r, dedup.Failed, store.FaultCanceled)
		wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("m")), dedup.Applied, 0)
		p.wantEffects(1)
	})
}

// untilAsleep is a context whose deadline passes when the server has begun to sleep for the transaction,
// however long it takes until then.
func (p *place) untilAsleep(ctx context.Context, tx *sql.Tx) context.Context {
	p.t.Helper()
	limited := &deadline{ctx, make(chan struct{})}
	var pid int32
	if err := tx.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		p.t.Error(err)
	}
	var watcher sync.WaitGroup
	p.t.Cleanup(watcher.Wait)
	watcher.Go(func() {
		defer close(limited.passed)
		await(p.t, func() bool {
			var sleeps bool
			err := p.admin.QueryRow(ctx, "select wait_event = 'PgSleep' from pg_stat_activity where pid = $1", pid).Scan(&sleeps)
			return err == nil && sleeps
		})
	})
	return limited
}

// deadline is a context that ends of its deadline when somebody says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d *deadline) Done() <-chan struct{} { return d.passed }

func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The context of the message may end in the middle; the transaction then goes on until the guard
// has rolled it back, and a handler that does not look at the context can still finish.
func TestTransactionOutlivesTheContextOfItsMessage(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		ctx, cancel := context.WithCancel(t.Context())
		r := newGuard(t, p.open(), func(_ context.Context, tx *sql.Tx, m dedup.Message) error {
			cancel()
			return addEffect(context.Background(), tx, m)
		}).Process(ctx, message("m"))
		wantOutcome(t, r, dedup.Applied, 0)
		p.wantEffects(1)
	})
}

func TestServerCrashInTheHandler(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	p := newPlace(t, "pgx", server.DSN(), "semel", 5*time.Second)
	s := p.open()
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("before")), dedup.Applied, 0)
	r := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
		if err := addEffect(ctx, tx, m); err != nil {
			return err
		}
		if err := server.Crash(); err != nil {
			t.Error(err)
		}
		return addEffect(ctx, tx, m)
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultOutage)
	r = newGuard(t, s, addEffect).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultOutage)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("before")), dedup.Duplicate, 0)
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("m")), dedup.Applied, 0)
	p.admin.Reset()
	if n := p.effects("effect"); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}
