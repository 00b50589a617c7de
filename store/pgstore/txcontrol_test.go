package pgstore_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// ways are those in which a handler can send a text in its transaction.
var ways = map[string]func(ctx context.Context, tx pgx.Tx, sql string) error{
	"Exec": func(ctx context.Context, tx pgx.Tx, sql string) error {
		_, err := tx.Exec(ctx, sql)
		return err
	},
	"Query": func(ctx context.Context, tx pgx.Tx, sql string) error {
		rows, err := tx.Query(ctx, sql)
		rows.Close()
		return err
	},
	"QueryRow": func(ctx context.Context, tx pgx.Tx, sql string) error { return tx.QueryRow(ctx, sql).Scan(new(any)) },
	"SendBatch": func(ctx context.Context, tx pgx.Tx, sql string) error {
		b := &pgx.Batch{}
		b.Queue("select 1")
		b.Queue(sql)
		return tx.SendBatch(ctx, b).Close()
	},
	"Prepare": func(ctx context.Context, tx pgx.Tx, sql string) error {
		if _, err := tx.Prepare(ctx, "prepared", sql); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "prepared")
		return err
	},
}

// everyWay are these, and the same within savepoints.
func everyWay() map[string]func(ctx context.Context, tx pgx.Tx, sql string) error {
	all := maps.Clone(ways)
	for way, send := range ways {
		all[way+" in a savepoint"] = func(ctx context.Context, tx pgx.Tx, sql string) error {
			return pgx.BeginFunc(ctx, tx, func(outer pgx.Tx) error {
				return pgx.BeginFunc(ctx, outer, func(inner pgx.Tx) error { return send(ctx, inner, sql) })
			})
		}
	}
	return all
}

// ROLLBACK AND CHAIN leaves a transaction open that looks like the one before it and has neither the mark nor
// the effects: its COMMIT would acknowledge a message of which nothing is there.
func TestHandlerCannotEndItsTransactionByText(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	for _, sql := range []string{"rollback and chain", "commit and chain", "/* all */ ROLLBACK;", "commit"} {
		for way, send := range everyWay() {
			for _, passesOver := range []bool{false, true} {
				name := sql + " by " + way
				r := newGuard(t, s, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
					if err := addEffect(ctx, tx, m); err != nil {
						return err
					}
					err := send(ctx, tx, sql)
					if !errors.Is(err, store.ErrTxControl) {
						t.Errorf("%s: the error is %v", name, err)
					}
					if passesOver {
						return nil
					}
					return err
				}).Process(t.Context(), message(name))
				wantOutcome(t, r, dedup.Failed, store.FaultHandler)
				if !errors.Is(r.Err, store.ErrTxControl) {
					t.Errorf("%s: the message failed of %v", name, r.Err)
				}
			}
		}
	}
	wantEffects(t, pool, 0)
	if n := queryOne[int64](t, pool, "select count(*) from semel.marks_plain"); n != 0 {
		t.Errorf("%d marks were stored", n)
	}
}

// Savepoints by text are the handler's own affair.
func TestSavepointsByText(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	r := newGuard(t, newStore(t, pool), func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		for _, sql := range []string{"savepoint a", "insert into effects values ('undone')", "rollback to a", "/* now */ rollback work to savepoint a", "release a"} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return addEffect(ctx, tx, m)
	}).Process(t.Context(), message("m"))
	wantOutcome(t, r, dedup.Applied, 0)
	wantEffects(t, pool, 1)
}
