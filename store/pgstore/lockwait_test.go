package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestLockWaitIsBounded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope, at := scopeOf(t, s), time.Now()
	held := []store.Mark{plainMark(scope, "m"), timedMark(scope, at, "m")}
	for _, mark := range held {
		begin(t, s, mark)
	}
	busy := newStore(t, pool, withShortLockWait)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for what, marks := range map[string][]store.Mark{
		"plain":      held[:1],
		"timed":      held[1:],
		"many plain": {held[0], plainMark(scope, "free")},
		"many timed": {held[1], timedMark(scope, at, "free")},
	} {
		start := time.Now()
		_, _, err := busy.Begin(ctx, marks)
		wantCode(t, err, "55P03")
		if f := busy.Fault(err); f != store.FaultBusy {
			t.Errorf("%s: the fault is %s, want busy", what, f)
		}
		if took := time.Since(start); took < 90*time.Millisecond || took > 4*time.Second {
			t.Errorf("%s: gave up after %s, want about 100ms", what, took)
		}
	}
}

// A statement_timeout below the limit ends the wait earlier; the message is not to blame for
// that either.
func TestStatementTimeoutInTheWaitIsBusy(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	mark := plainMark(scopeOf(t, s), "m")
	begin(t, s, mark)
	hasty := newStore(t, newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["statement_timeout"] = "100ms"
	}))
	_, _, err := hasty.Begin(t.Context(), []store.Mark{mark})
	wantCode(t, err, "57014")
	if f := hasty.Fault(err); f != store.FaultBusy {
		t.Errorf("the fault is %s, want busy", f)
	}
	// In the handler it is the handler's.
	r := newGuard(t, hasty, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, "select pg_sleep(10)")
		return err
	}).Process(t.Context(), message("slow"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)
}

// The limit is the transaction's, so it bounds the handler's statements as well, and a handler
// may choose another.
func TestLockWaitHoldsForTheHandler(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "create table accounts (id int primary key); insert into accounts values (1)")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "select from accounts for update"); err != nil {
		t.Fatal(err)
	}
	lock := func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, "select from accounts for update")
		return err
	}
	r := newGuard(t, newStore(t, pool, withShortLockWait), lock).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultBusy)
	wantCode(t, r.Err, "55P03")

	var limit string
	r = newGuard(t, newStore(t, pool, pgstore.WithLockWait(time.Hour)), func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := tx.QueryRow(ctx, "show lock_timeout").Scan(&limit); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "set local lock_timeout = '50ms'"); err != nil {
			return err
		}
		return lock(ctx, tx, m)
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultBusy)
	if limit != "1h" {
		t.Errorf("the handler's limit was %s, want 1h", limit)
	}
}
