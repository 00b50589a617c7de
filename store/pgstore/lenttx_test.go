package pgstore_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
)

func oneConnection(c *pgxpool.Config) { c.MaxConns = 1 }

func TestLentTransactionCannotBeEnded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	ctx, mark := t.Context(), plainMark(scopeOf(t, s), "m")
	u := begin(t, s, mark)
	effect(t, u.Tx())
	if err := u.Tx().Commit(ctx); !errors.Is(err, store.ErrTxControl) {
		t.Errorf("Commit: %v", err)
	}
	if err := u.Tx().Rollback(ctx); !errors.Is(err, store.ErrTxControl) {
		t.Errorf("Rollback: %v", err)
	}
	// A batch may not bring a transaction of its own: it would end ours.
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	b.Queue("insert into effects values ('batch')")
	if err := u.Tx().SendBatch(ctx, b).Close(); !errors.Is(err, store.ErrTxControl) {
		t.Errorf("SendBatch with BeginTx: %v", err)
	}
	end, err := u.Commit(ctx)
	wantEnd(t, end, err, store.Committed)
	wantEffects(t, pool, 1)
	if err := u.Tx().Rollback(ctx); err != pgx.ErrTxClosed {
		t.Errorf("a deferred rollback after the end: %v, want pgx.ErrTxClosed", err)
	}
	if err := u.Tx().Commit(ctx); !errors.Is(err, store.ErrTxControl) {
		t.Errorf("Commit after the end: %v", err)
	}
}

// A handler that ends the transaction with SQL of its own has split the mark from what
// comes later. Nobody can mend that, but nobody may call it committed.
func TestEndingByStatementIsNoticed(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool)
	ctx, scope, name := t.Context(), scopeOf(t, s), named("mark %d")
	for _, sql := range []string{"commit", "rollback", "END", "abort"} {
		for _, savepoint := range []bool{false, true} {
			u := begin(t, s, plainMark(scope, name()))
			tx := u.Tx()
			inner := tx
			if savepoint {
				var err error
				if inner, err = tx.Begin(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.Conn().Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
			// What it does now would stand by itself, outside of any transaction.
			if _, err := tx.Exec(ctx, "insert into effects values ('stray')"); !errors.Is(err, store.ErrTxControl) {
				t.Errorf("%s: Exec: %v", sql, err)
			}
			if err := tx.QueryRow(ctx, "select 1").Scan(new(int)); !errors.Is(err, store.ErrTxControl) {
				t.Errorf("%s: QueryRow: %v", sql, err)
			}
			var end store.End
			var err error
			if savepoint {
				end, _, err = u.Next(ctx, []store.Mark{plainMark(scope, name())})
			} else {
				end, err = u.Commit(ctx)
			}
			wantEnd(t, end, err, store.Unknown, store.ErrTxControl)
			if savepoint {
				if _, err := inner.Exec(ctx, "insert into effects values ('stray')"); !errors.Is(err, pgx.ErrTxClosed) {
					t.Errorf("%s: Exec in a savepoint that was kept: %v", sql, err)
				}
			}
			wantEffects(t, pool, 0)
		}
	}
}

func TestEndedTransactionReachesNobody(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool)
	ctx, scope := t.Context(), scopeOf(t, s)
	ended := map[string]pgx.Tx{}

	u := begin(t, s, plainMark(scope, "committed"))
	ended["committed"] = u.Tx()
	end, err := u.Commit(ctx)
	wantEnd(t, end, err, store.Committed)

	u = begin(t, s, plainMark(scope, "rolled back"))
	ended["rolled back"] = u.Tx()
	if err := u.Rollback(ctx); err != nil {
		t.Fatal(err)
	}

	u = begin(t, s, plainMark(scope, "savepoint"))
	if ended["savepoint"], err = u.Tx().Begin(ctx); err != nil {
		t.Fatal(err)
	}
	end, _, err = u.Next(ctx, []store.Mark{plainMark(scope, "the next")})
	wantEnd(t, end, err, store.Committed)
	if ended["nested savepoint"], err = u.Tx().Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if ended["nested savepoint"], err = ended["nested savepoint"].Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if err := u.Rollback(ctx); err != nil {
		t.Fatal(err)
	}

	// The connection is somebody else's by now.
	other := begin(t, s, plainMark(scope, "other"))
	for what, tx := range ended {
		for act, err := range useEverything(t, tx) {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s: %s: %v, want pgx.ErrTxClosed", what, act, err)
			}
		}
	}
	effect(t, other.Tx())
	end, err = other.Commit(ctx)
	wantEnd(t, end, err, store.Committed)
	wantEffects(t, pool, 1)
}

// useEverything calls every method that could send something and returns their errors.
func useEverything(t *testing.T, tx pgx.Tx) map[string]error {
	t.Helper()
	ctx, errs := t.Context(), map[string]error{}
	const sql = "insert into effects values ('stray') returning 1"
	_, errs["Exec"] = tx.Exec(ctx, sql)
	rows, err := tx.Query(ctx, sql)
	rows.Close()
	errs["Query"], errs["Query's rows"] = err, rows.Err()
	errs["QueryRow"] = tx.QueryRow(ctx, sql).Scan(new(int))
	b := &pgx.Batch{}
	b.Queue(sql)
	errs["SendBatch"] = tx.SendBatch(ctx, b).Close()
	_, errs["CopyFrom"] = tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"stray"}}))
	_, errs["Prepare"] = tx.Prepare(ctx, "stray", sql)
	_, errs["Begin"] = tx.Begin(ctx)
	objects := tx.LargeObjects()
	_, errs["LargeObjects"] = objects.Create(ctx, 0)
	errs["Rollback"] = tx.Rollback(ctx)
	return errs
}

func TestUnreadResultsRollBack(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool)
	ctx, scope, name := t.Context(), scopeOf(t, s), named("mark %d")
	for what, leave := range map[string]func(tx pgx.Tx){
		"rows": func(tx pgx.Tx) {
			if _, err := tx.Query(ctx, "select generate_series(1, 100000)"); err != nil {
				t.Fatal(err)
			}
		},
		"batch": func(tx pgx.Tx) {
			b := &pgx.Batch{}
			b.Queue("insert into effects values ('left')")
			tx.SendBatch(ctx, b)
		},
	} {
		for _, next := range []bool{false, true} {
			mark := plainMark(scope, name())
			u := begin(t, s, mark)
			effect(t, u.Tx())
			leave(u.Tx())
			var end store.End
			var err error
			if next {
				end, _, err = u.Next(ctx, []store.Mark{plainMark(scope, name())})
			} else {
				end, err = u.Commit(ctx)
			}
			wantEnd(t, end, err, store.RolledBack)
			if want := "pgstore: commit: the handler left rows of a query unread and unclosed"; err.Error() != want {
				t.Errorf("%s: the error is %q, want %q", what, err, want)
			}
			if f := s.Fault(err); f != store.FaultHandler {
				t.Errorf("%s: the fault is %s, want handler", what, f)
			}
			wantMark(t, s, mark, store.New)
			wantEffects(t, pool, 0)
		}
	}
}

func TestSwallowedErrorRollsBack(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool)
	ctx, mark := t.Context(), plainMark(scopeOf(t, s), "m")
	u := begin(t, s, mark)
	effect(t, u.Tx())
	_, _ = u.Tx().Exec(ctx, "select 1/0")
	end, err := u.Commit(ctx)
	wantEnd(t, end, err, store.RolledBack, pgx.ErrTxCommitRollback)
	if f := s.Fault(err); f != store.FaultHandler {
		t.Errorf("the fault is %s, want handler", f)
	}
	wantMark(t, s, mark, store.New)
	wantEffects(t, pool, 0)
}
