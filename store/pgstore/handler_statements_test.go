package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// A deadline of the handler's own closes the connection and is the handler's failure.
func TestHandlersOwnDeadline(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := tx.Exec(ctx, "select pg_sleep(60)")
		return err
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultHandler)

	// Also where it makes an error of its own of it, or passes over it: the message would
	// come for ever otherwise.
	for _, own := range []error{errors.New("the lookup took too long"), nil} {
		for _, ask := range []func(ctx context.Context, tx pgx.Tx){
			func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, "select pg_sleep(60)") },
			func(ctx context.Context, tx pgx.Tx) { _ = tx.QueryRow(ctx, "select pg_sleep(60)").Scan(new(any)) },
		} {
			r = newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
				limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				ask(limited, tx)
				_ = addEffect(ctx, tx, m)
				return own
			}).Process(t.Context(), message("m"))
			wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	r = newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		cancel()
		return addEffect(ctx, tx, m)
	}).Process(ctx, message("m"))
	wantOutcome(t, r, dedup.Failed, store.FaultCanceled)
	wantOutcome(t, newGuard(t, s, addEffect).Process(t.Context(), message("m")), dedup.Applied, 0)
	wantEffects(t, pool, 1)
}
