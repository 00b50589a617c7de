package memstore_test

import (
	"context"
	"testing"

	"github.com/semel-dev/semel/outbox/outboxtest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestExamQueue(t *testing.T) {
	outboxtest.TestQueue(t, func(t *testing.T) outboxtest.Queue {
		s := memstore.New()
		return outboxtest.Queue{Queue: s, Admin: s, Begin: func(t testing.TB) outboxtest.Tx {
			t.Helper()
			u, _, err := s.Begin(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return &queueTx{s, u}
		}}
	})
}

type queueTx struct {
	s *memstore.Store
	u store.Unit[*memstore.Tx]
}

func (q *queueTx) Append(t testing.TB, events ...store.Event) {
	t.Helper()
	if err := q.s.AppendTx(context.Background(), q.u.Tx(), events); err != nil {
		t.Fatal(err)
	}
}

func (q *queueTx) Commit(t testing.TB) {
	t.Helper()
	if _, err := q.u.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (q *queueTx) Rollback(t testing.TB) {
	t.Helper()
	if err := q.u.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
}
