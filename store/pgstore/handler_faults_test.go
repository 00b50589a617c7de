package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func newGuard(t *testing.T, s store.Marks[pgx.Tx], h dedup.TxHandlerFunc[pgx.Tx]) *dedup.TxGuard[pgx.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, h)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func message(id string) dedup.Message {
	return dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte(id)}}}
}

func wantOutcome(t *testing.T, r dedup.Result, want dedup.Outcome, fault store.Fault) {
	t.Helper()
	if r.Outcome != want || r.Fault != fault {
		t.Errorf("the message is %s (%s) with error %v, want %s (%s)", r.Outcome, r.Fault, r.Err, want, fault)
	}
}

func addEffect(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	_, err := tx.Exec(ctx, "insert into effects values ('effect')")
	return err
}

func TestDeferredConstraintFailsTheMessage(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "create table parents (id int primary key)")
	exec(t, pool, "create table children (parent int references parents deferrable initially deferred)")
	s := newStore(t, pool)
	scope, ctx := scopeOf(t, s), t.Context()

	u := begin(t, s, plainMark(scope, "m"))
	if _, err := u.Tx().Exec(ctx, "insert into children values (1)"); err != nil {
		t.Fatal(err)
	}
	end, err := u.Commit(ctx)
	wantEnd(t, end, err, store.RolledBack)
	wantCode(t, err, "23503")

	u = begin(t, s, plainMark(scope, "m"))
	if _, err := u.Tx().Exec(ctx, "insert into children values (1)"); err != nil {
		t.Fatal(err)
	}
	end, _, err = u.Next(ctx, []store.Mark{plainMark(scope, "n")})
	wantEnd(t, end, err, store.RolledBack)
	wantCode(t, err, "23503")
	wantMark(t, s, plainMark(scope, "m"), store.New)
	wantMark(t, s, plainMark(scope, "n"), store.New)

	g := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, "insert into children values (1)")
		return err
	})
	r := g.Process(ctx, message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)
	wantCode(t, r.Err, "23503")
}

// terminate ends the session of a transaction and returns when it is gone.
func terminate(t *testing.T, admin *pgxpool.Pool, tx pgx.Tx) {
	t.Helper()
	pid := int32(tx.Conn().PgConn().PID())
	exec(t, admin, "select pg_terminate_backend($1)", pid)
	awaitGone(t, admin, pid)
}

func TestTerminatedSessionIsAnOutage(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, newPool(t, pool.Config().ConnString(), oneConnection))
	deaf := errors.New("the booking did not work")
	for name, handler := range map[string]dedup.TxHandlerFunc[pgx.Tx]{
		"the handler hands the error on": func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			terminate(t, pool, tx)
			return addEffect(ctx, tx, m)
		},
		"the handler passes over the error": func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			terminate(t, pool, tx)
			_ = addEffect(ctx, tx, m)
			return nil
		},
		"the handler cancels its own context": func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			terminate(t, pool, tx)
			if addEffect(ctx, tx, m) == nil {
				t.Error("the statement went through")
			}
			return deaf
		},
		"the handler makes an error of its own": func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			terminate(t, pool, tx)
			if addEffect(ctx, tx, m) == nil {
				t.Error("the statement went through")
			}
			return deaf
		},
	} {
		r := newGuard(t, s, handler).Process(t.Context(), message(name))
		wantOutcome(t, r, dedup.Failed, store.FaultOutage)
	}
	// A handler that has noticed nothing: whatever the end, it is not committed.
	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		err := addEffect(ctx, tx, m)
		terminate(t, pool, tx)
		return err
	}).Process(t.Context(), message("unnoticed"))
	if r.Outcome.Settled() || r.Fault != store.FaultOutage {
		t.Errorf("the message is %s (%s)", r.Outcome, r.Fault)
	}
	wantEffects(t, pool, 0)
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("unnoticed")), dedup.Applied, 0)
	wantEffects(t, pool, 1)
}

// A handler that dawdles would be ended next time, too. Were that an outage, the message
// would come for ever.
func TestIdleInTransactionIsTheHandlersFault(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, newPool(t, pool.Config().ConnString(), oneConnection))
	dawdle := func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if _, err := tx.Exec(ctx, "set local idle_in_transaction_session_timeout = '50ms'"); err != nil {
			return err
		}
		if err := addEffect(ctx, tx, m); err != nil {
			return err
		}
		awaitGone(t, pool, int32(tx.Conn().PgConn().PID()))
		return nil
	}
	r := newGuard(t, s, dawdle).Process(t.Context(), message("noticed at the commit"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)
	wantCode(t, r.Err, "25P03")
	r = newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := dawdle(ctx, tx, m); err != nil {
			return err
		}
		return addEffect(ctx, tx, m)
	}).Process(t.Context(), message("noticed in the handler"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)
	wantEffects(t, pool, 0)
	if n := queryOne[int64](t, pool, "select count(*) from semel.marks_plain"); n != 0 {
		t.Errorf("%d marks were stored", n)
	}
}

func TestRollbackOfALostSession(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, newPool(t, pool.Config().ConnString(), oneConnection))
	mark := plainMark(scopeOf(t, s), "m")
	u := begin(t, s, mark)
	terminate(t, pool, u.Tx())
	if err := u.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	wantMark(t, s, mark, store.New)
}

func TestServerCrashInTheHandler(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	pool := newPool(t, server.DSN())
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "create table effects (name text)")
	s := newStore(t, pool)
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("before")), dedup.Applied, 0)

	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
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
	wantEffects(t, pool, 2)
}
