package pgstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// Events are numbered in the order in which they are given, one statement or several, run or
// queued.
func TestAppendNumbersEventsInTheirOrder(t *testing.T) {
	pool := migrated(t)
	s := newStore(t, pool)
	var events []store.Event
	for i := range 2000 {
		events = append(events, store.Event{ID: store.NewID(), Destination: "d", Topic: "t", Type: fmt.Sprint(i)})
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := s.AppendTx(t.Context(), tx, events[:1]); err != nil {
			return err
		}
		if err := s.AppendTx(t.Context(), tx, events[1:1500]); err != nil {
			return err
		}
		b := &pgx.Batch{}
		if err := s.Queued().AppendTx(t.Context(), b, events[1500:1999]); err != nil {
			return err
		}
		if err := s.Queued().AppendTx(t.Context(), b, events[1999:]); err != nil {
			return err
		}
		if err := s.Queued().AppendTx(t.Context(), b, nil); err != nil {
			return err
		}
		return tx.SendBatch(t.Context(), b).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), "select type from semel.outbox order by seq")
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(got) != len(events) {
		t.Fatal(len(got), err)
	}
	for i := range got {
		if got[i] != events[i].Type {
			t.Fatalf("number %d is event %s", i, got[i])
		}
	}
}

// A table that was rewritten has its rows elsewhere: what was sent is removed all the same.
func TestSentRowsAreRemovedFromARewrittenTable(t *testing.T) {
	pool := migrated(t)
	s := newStore(t, pool)
	event := store.Event{ID: store.NewID(), Destination: "d", Topic: "t"}
	for range 3 {
		event.ID = store.NewID()
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return s.AppendTx(t.Context(), tx, []store.Event{event}) }); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, pool, "delete from semel.outbox where seq = 1")
	m := s.Join("relay", time.Minute)
	if _, err := m.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	var slots []int16
	for i := range int16(store.Slots) {
		slots = append(slots, i)
	}
	b, err := m.Next(t.Context(), store.Settlement{}, store.Want{Slots: slots, Flow: 10})
	if err != nil || len(b.Flow) != 2 {
		t.Fatal(len(b.Flow), err)
	}
	exec(t, pool, "vacuum full semel.outbox")
	event.ID = store.NewID()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return s.AppendTx(t.Context(), tx, []store.Event{event}) }); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Next(t.Context(), store.Settlement{Sent: b.Flow}, store.Want{}); err != nil {
		t.Fatal(err)
	}
	if n := queryOne[int64](t, pool, "select min(seq) from semel.outbox"); n != 4 {
		t.Errorf("number %d is left, want that of the event that was not sent", n)
	}
}

// A place in the table that was freed and taken by another event is not mistaken for the one
// that was read there.
func TestEventInThePlaceOfAnotherOneIsNotRemoved(t *testing.T) {
	pool := migrated(t)
	s := newStore(t, pool)
	write := func() {
		event := store.Event{ID: store.NewID(), Destination: "d", Topic: "t", Key: []byte("k")}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return s.AppendTx(t.Context(), tx, []store.Event{event}) }); err != nil {
			t.Fatal(err)
		}
	}
	place := func() string { return queryOne[string](t, pool, "select ctid::text from semel.outbox") }
	m := s.Join("relay", time.Minute)
	if _, err := m.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	slot := (&store.Event{Destination: "d", Key: []byte("k")}).Slot()
	for range 20 {
		write()
		b, err := m.Next(t.Context(), store.Settlement{}, store.Want{Slots: []int16{slot}, Flow: 10})
		if err != nil || len(b.Flow) != 1 {
			t.Fatal(len(b.Flow), err)
		}
		before := place()
		exec(t, pool, "delete from semel.outbox")
		exec(t, pool, "vacuum semel.outbox")
		write()
		after := place()
		if _, err := m.Next(t.Context(), store.Settlement{Sent: b.Flow}, store.Want{}); err != nil {
			t.Fatal(err)
		}
		if n := queryOne[int64](t, pool, "select count(*) from semel.outbox"); n != 1 {
			t.Fatalf("the event in the place %s of another one was removed", after)
		}
		if before == after {
			return
		}
		// A snapshot elsewhere has kept vacuum from freeing the place.
		exec(t, pool, "truncate semel.outbox")
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("no place was ever taken again")
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
