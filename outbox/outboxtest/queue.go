package outboxtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// Queue is what [TestQueue] examines: an empty outbox of its own for each call.
type Queue struct {
	store.Queue
	Admin store.OutboxAdmin
	// Begin opens a transaction that events can be written in.
	Begin func(t testing.TB) Tx
}

// Tx is an open transaction.
type Tx interface {
	Append(t testing.TB, events ...store.Event)
	Commit(t testing.TB)
	Rollback(t testing.TB)
}

// TestQueue examines a queue. Each case is a promise of [store.Queue], [store.Member] or
// [store.OutboxAdmin].
func TestQueue(t *testing.T, open func(t *testing.T) Queue) {
	for _, c := range queueCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Log(c.promise)
			c.run(&queueCase{T: t, q: open(t)})
		})
	}
}

type queueTest struct {
	name, promise string
	run           func(c *queueCase)
}

var queueCases = slices.Concat(queueFlow, queueWaiting, queueSlots, queueAdmin)

// queueCase is one case with its outbox.
type queueCase struct {
	*testing.T
	q     Queue
	names int
}

const longLease = time.Minute

// join joins and holds until the member has its share of all slots.
func (c *queueCase) join(lease time.Duration) (store.Member, store.Holding) {
	c.Helper()
	c.names++
	m := c.q.Join("member-"+string(rune('a'+c.names)), lease)
	return m, c.hold(m)
}

func (c *queueCase) hold(m store.Member) store.Holding {
	c.Helper()
	h, err := m.Hold(context.Background())
	if err != nil {
		c.Fatal(err)
	}
	return h
}

func (c *queueCase) write(events ...store.Event) {
	c.Helper()
	tx := c.q.Begin(c)
	tx.Append(c, events...)
	tx.Commit(c)
}

// next is a Next that must work.
func (c *queueCase) next(m store.Member, done store.Settlement, want store.Want) store.Batch {
	c.Helper()
	b, err := m.Next(context.Background(), done, want)
	if err != nil {
		c.Fatal(err)
	}
	return b
}

// flow reads flowing rows until a read brings none.
func (c *queueCase) flow(m store.Member, done store.Settlement) (rows []*store.Row) {
	c.Helper()
	for range 1000 {
		b := c.next(m, done, store.Want{Slots: allSlots, Flow: 100})
		done = store.Settlement{}
		rows = append(rows, b.Flow...)
		if !b.More && len(b.Flow) == 0 {
			return rows
		}
	}
	c.Fatal("reading the flow does not end")
	return nil
}

// eventually reads the flow until a row comes, for as long as rows that are late may take.
func (c *queueCase) eventually(m store.Member) []*store.Row {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if rows := c.flow(m, store.Settlement{}); len(rows) > 0 {
			return rows
		}
	}
	c.Fatal("no row came within 20s")
	return nil
}

func (c *queueCase) types(rows []*store.Row, want ...string) {
	c.Helper()
	if got := typesOf(rows); !slices.Equal(got, want) {
		c.Errorf("got %q, want %q", got, want)
	}
}

func typesOf(rows []*store.Row) []string {
	types := []string{}
	for _, r := range rows {
		types = append(types, r.Type)
	}
	return types
}

var allSlots = func() (all []int16) {
	for i := range int16(store.Slots) {
		all = append(all, i)
	}
	return all
}()

// event makes an event; an empty key is none.
func event(topic, key, kind string) store.Event {
	e := store.Event{ID: store.NewID(), Destination: "d", Topic: topic, Type: kind, Payload: []byte(kind)}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

// sameSlot are keys whose events share a slot.
func sameSlot(n int) (keys []string) {
	first := event("t", "k0", "")
	for i := 0; len(keys) < n; i++ {
		key := "k" + time.Duration(i).String()
		if e := event("t", key, ""); e.Slot() == first.Slot() {
			keys = append(keys, key)
		}
	}
	return keys
}

// waitAs settles rows as waiting in one state.
func waitAs(state store.RowState, after time.Duration, rows ...*store.Row) (s store.Settlement) {
	for _, r := range rows {
		s.Wait = append(s.Wait, store.Wait{Row: r, State: state, After: after, Attempts: r.Attempts, Reason: "reason"})
	}
	return s
}
