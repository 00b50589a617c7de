package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// A batch of the handler's with an argument that cannot be encoded makes pgx close the
// connection. That is no outage, or the message would never be given up.
func TestArgumentThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		b := &pgx.Batch{}
		b.Queue("insert into effects values ($1)", "first")
		b.Queue("insert into effects values ($1)", unencodable{})
		return fmt.Errorf("book: %w", tx.SendBatch(ctx, b).Close())
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)
	wantEffects(t, pool, 0)

	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		s := newStore(t, newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
		g, err := dedup.NewTx(s.Queued(), "consumer", dedup.FromHeader("id"), dedup.Forever, func(_ context.Context, b *pgx.Batch, _ dedup.Message) error {
			b.Queue("insert into effects select $1::int::text", unencodable{})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range [][]dedup.Result{
			g.ProcessEach(t.Context(), []dedup.Message{message("m")}),
			g.ProcessEach(t.Context(), []dedup.Message{message("m"), message("n")}),
		} {
			if len(r) != 1 {
				t.Fatalf("%s: %d results", mode, len(r))
			}
			wantOutcome(t, r[0], dedup.Failed, store.FaultHandler)
		}
	}
	wantEffects(t, pool, 0)
}

type unencodable struct{}

// The first run of a statement that was prepared before its table changed fails. The guard
// runs the message once more.
func TestCachedPlanIsAConflictOnce(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, newPool(t, pool.Config().ConnString(), oneConnection))
	exec(t, pool, "create table shapes (a int)")
	var runs int
	g := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		runs++
		rows, err := tx.Query(ctx, "select * from shapes where a <> $1", 0)
		if err != nil {
			return err
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			if f := s.Fault(err); f != store.FaultConflict {
				t.Errorf("%v is %s, want conflict", err, f)
			}
			return err
		}
		return addEffect(ctx, tx, m)
	})
	wantOutcome(t, g.Process(t.Context(), message("before")), dedup.Applied, 0)
	exec(t, pool, "alter table shapes add b text")
	wantOutcome(t, g.Process(t.Context(), message("after")), dedup.Applied, 0)
	if runs != 3 {
		t.Errorf("the handler ran %d times, want 3", runs)
	}
	wantEffects(t, pool, 2)
}

// A deadline of the handler's own closes the connection and is the handler's failure. The server may not have
// noticed by then, and go on with the statement and hold the mark, so each message has its own.
func TestHandlersOwnDeadline(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s, name := newStore(t, pool), named("message %d")
	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(untilAsleep(t, pool, ctx, tx), "select pg_sleep(60)")
		return err
	}).Process(t.Context(), message(name()))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)

	// Also where it makes an error of its own of it, or passes over it: the message would
	// come for ever otherwise.
	for _, own := range []error{errors.New("the lookup took too long"), nil} {
		for _, ask := range []func(ctx context.Context, tx pgx.Tx){
			func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, "select pg_sleep(60)") },
			func(ctx context.Context, tx pgx.Tx) { _ = tx.QueryRow(ctx, "select pg_sleep(60)").Scan(new(any)) },
			func(ctx context.Context, tx pgx.Tx) {
				if inner, err := tx.Begin(t.Context()); err == nil { // the deadline is that of the statement alone
					_, _ = inner.Exec(ctx, "select pg_sleep(60)")
				}
			},
		} {
			r = newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
				ask(untilAsleep(t, pool, ctx, tx), tx)
				_ = addEffect(ctx, tx, m)
				return own
			}).Process(t.Context(), message(name()))
			wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		}
	}
	wantEffects(t, pool, 0)
}

func TestHandlerWhoseMessageIsCanceled(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	ctx, cancel := context.WithCancel(t.Context())
	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		cancel()
		return addEffect(ctx, tx, m)
	}).Process(ctx, message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultCanceled)
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("m")), dedup.Applied, 0)
	wantEffects(t, pool, 1)
}

// untilAsleep is a context whose deadline passes when the server has begun to sleep for the transaction,
// however long it takes until then.
func untilAsleep(t *testing.T, pool *pgxpool.Pool, ctx context.Context, tx pgx.Tx) context.Context {
	t.Helper()
	limited := &deadline{ctx, make(chan struct{})}
	pid := int32(tx.Conn().PgConn().PID())
	var watcher sync.WaitGroup
	t.Cleanup(watcher.Wait)
	watcher.Go(func() {
		defer close(limited.passed)
		await(t, func() bool {
			var sleeps bool
			err := pool.QueryRow(ctx, "select wait_event = 'PgSleep' from pg_stat_activity where pid = $1", pid).Scan(&sleeps)
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
