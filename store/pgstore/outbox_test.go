package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/outbox/outboxtest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestQueue(t *testing.T) {
	outboxtest.TestQueue(t, func(t *testing.T) outboxtest.Queue { return openQueue(t) })
}

// The queue must work however the pool sends its statements. In these modes the server answers
// in text; in the others it answers as in the default one.
func TestQueueInTextModes(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			outboxtest.TestQueue(t, func(t *testing.T) outboxtest.Queue {
				return openQueue(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			})
		})
	}
}

func openQueue(t *testing.T, configure ...func(*pgxpool.Config)) outboxtest.Queue {
	t.Helper()
	pool := migrated(t, configure...)
	s := newStore(t, pool)
	return outboxtest.Queue{Queue: s, Admin: s, Begin: func(t testing.TB) outboxtest.Tx {
		t.Helper()
		tx, err := pool.Begin(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return &queueTx{tx, s}
	}}
}

type queueTx struct {
	tx pgx.Tx
	s  *pgstore.Store
}

func (q *queueTx) Append(t testing.TB, events ...store.Event) {
	t.Helper()
	if err := q.s.AppendTx(context.Background(), q.tx, events); err != nil {
		t.Fatal(err)
	}
}

func (q *queueTx) Commit(t testing.TB) {
	t.Helper()
	if err := q.tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (q *queueTx) Rollback(t testing.TB) {
	t.Helper()
	if err := q.tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
}
