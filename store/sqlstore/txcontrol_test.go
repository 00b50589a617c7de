package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

type txOf = *sql.Tx

// control are the ways in which a handler can end its transaction.
var control = map[string]func(ctx context.Context, tx *sql.Tx) error{
	"tx.Commit":   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
	"tx.Rollback": func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
	"commit":      statement("commit"),
	"rollback":    statement("rollback"),
	"begin anew":  statement("rollback; begin"),
	"and chain":   statement("commit and chain"),
	"two steps": func(ctx context.Context, tx *sql.Tx) error {
		if err := statement("rollback")(ctx, tx); err != nil {
			return err
		}
		return statement("begin")(ctx, tx)
	},
}

func statement(text string) func(ctx context.Context, tx *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}
}

// However a handler ends its transaction, the message is not acknowledged: with "rollback" it would
// be lost.
func TestTransactionEndedByTheHandlerIsUnknown(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		scope := scopeOf(t, s)
		for name, act := range control {
			for _, way := range endings {
				t.Run(name+", "+way.name, func(t *testing.T) {
					mark, next := plainMark(scope, t.Name()), plainMark(scope, t.Name()+" next")
					u := begin(t, s, mark)
					if err := addNamed(t.Context(), u.Tx(), "effect"); err != nil {
						t.Fatal(err)
					}
					if err := act(t.Context(), u.Tx()); err != nil {
						t.Fatal(err)
					}
					var end store.End
					var err error
					if way.name == "next" {
						end, _, err = u.Next(t.Context(), []store.Mark{next})
					} else {
						end, err = u.Commit(t.Context())
					}
					wantEnd(t, end, err, store.Unknown, store.ErrTxControl)
					if f := s.Fault(err); f != store.FaultHandler {
						t.Errorf("the fault is %s, want handler", f)
					}
					wantMark(t, s, next, store.New)
				})
			}
			g := newGuard(t, s, func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
				if err := addEffect(ctx, tx, m); err != nil {
					return err
				}
				return act(ctx, tx)
			})
			if r := g.Process(t.Context(), message(name)); r.Outcome != dedup.Unknown {
				t.Errorf("%s: the message is %s, want unknown", name, r.Outcome)
			}
		}
	})
}

// A transaction in which nothing of the store's was written is looked at, too.
func TestEndedTransactionWithoutMarks(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		for _, text := range []string{"commit", "rollback"} {
			u, _, err := s.Begin(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := statement(text)(t.Context(), u.Tx()); err != nil {
				t.Fatal(err)
			}
			end, err := u.Commit(t.Context())
			wantEnd(t, end, err, store.Unknown, store.ErrTxControl)
		}
	})
}

// Savepoints are the handler's own affair.
func TestSavepoints(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		g := newGuard(t, p.open(), func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
			if err := statement("savepoint risky")(ctx, tx); err != nil {
				return err
			}
			if statement("insert into nowhere values (1)")(ctx, tx) == nil {
				t.Error("the statement went through")
			}
			if err := statement("rollback to savepoint risky")(ctx, tx); err != nil {
				return err
			}
			return addEffect(ctx, tx, m)
		})
		wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Applied, 0)
		wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Duplicate, 0)
		p.wantEffects(1)
	})
}
