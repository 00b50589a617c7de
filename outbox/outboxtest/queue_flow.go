package outboxtest

import (
	"bytes"
	"fmt"

	"github.com/semel-dev/semel/store"
)

var queueFlow = []queueTest{
	{"bytes", "an event comes out byte for byte as it went in; nil and empty differ", func(c *queueCase) {
		m, _ := c.join(longLease)
		want := []store.Event{
			{ID: store.NewID(), Destination: "d é", Topic: "t/ü", Key: []byte("\x00\xff"), Type: "a", Payload: []byte("\x00\xfe\r\n"), Headers: []store.Header{
				{Key: "h", Value: []byte("\x00\xfd")}, {Key: "h", Value: []byte{}}, {Key: "nil"}, {Key: "\xff", Value: bytes.Repeat([]byte("x"), 300)},
			}},
			{ID: store.NewID(), Destination: "d", Topic: "t", Key: []byte{}, Payload: []byte{}},
			{ID: store.NewID(), Destination: "d", Topic: "t"},
			{ID: store.NewID(), Destination: "d", Topic: "t", Payload: bytes.Repeat([]byte("\x01"), 300_000)},
		}
		c.write(want...)
		got := map[store.ID]store.Event{}
		for _, r := range c.flow(m, store.Settlement{}) {
			got[r.ID] = r.Event
			if r.State != store.Flowing || r.Slot != r.Event.Slot() || r.WrittenAt.IsZero() || r.Attempts+r.Starts != 0 {
				c.Errorf("row %d in slot %d, %s, written %s", r.Seq, r.Slot, r.State, r.WrittenAt)
			}
		}
		for _, e := range want {
			if w, g := fmt.Sprintf("%#v", e), fmt.Sprintf("%#v", got[e.ID]); w != g {
				c.Errorf("got  %.300s\nwant %.300s", g, w)
			}
		}
	}},
	{"order", "of one key rows come in the order in which they were written, one call or many", func(c *queueCase) {
		m, _ := c.join(longLease)
		var want []string
		for i := range 30 {
			c.write(event("t", "k", fmt.Sprint(i, "a")), event("u", "other", "x"), event("t", "k", fmt.Sprint(i, "b")))
			want = append(want, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
		}
		var rows []*store.Row
		for _, r := range c.flow(m, store.Settlement{}) {
			if string(r.Key) == "k" {
				rows = append(rows, r)
			}
		}
		c.types(rows, want...)
	}},
	{"once", "rows in the relay's hands are not given out again", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("t", "", "2"))
		if rows := c.flow(m, store.Settlement{}); len(rows) != 2 {
			c.Fatalf("%d rows came", len(rows))
		}
		c.types(c.flow(m, store.Settlement{}))
	}},
	{"sent", "a row that was sent is gone for everybody", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("t", "k", "2"))
		rows := c.flow(m, store.Settlement{})
		sent := store.Settlement{Sent: rows[:1]}
		c.next(m, sent, store.Want{})
		c.next(m, sent, store.Want{}) // saying it twice does no harm
		other := c.successor(m)
		c.types(c.flow(other, store.Settlement{}), "2")
	}},
	{"back", "a row that was put back comes again, and nothing of its key before it", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("t", "k", "2"))
		rows := c.flow(m, store.Settlement{})
		c.write(event("t", "k", "3"))
		c.types(c.flow(m, store.Settlement{Back: rows}), "1", "2", "3")
	}},
	{"uncommitted", "nothing is seen before its commit, nor after a rollback", func(c *queueCase) {
		m, _ := c.join(longLease)
		a, b := c.q.Begin(c), c.q.Begin(c)
		a.Append(c, event("t", "k", "1"))
		b.Append(c, event("t", "k", "2"))
		c.types(c.flow(m, store.Settlement{}))
		a.Rollback(c)
		c.types(c.flow(m, store.Settlement{}))
		b.Commit(c)
		c.types(c.flow(m, store.Settlement{}), "2")
	}},
	{"late commit", "a row that commits after a later one of its slot was read is found soon", func(c *queueCase) {
		m, _ := c.join(longLease)
		keys := sameSlot(2)
		late := c.q.Begin(c)
		late.Append(c, event("t", keys[0], "late"))
		c.write(event("t", keys[1], "early"))
		rows := c.flow(m, store.Settlement{})
		c.types(rows, "early")
		c.next(m, store.Settlement{Sent: rows}, store.Want{})
		late.Commit(c)
		c.types(c.eventually(m), "late")
	}},
	{"late commit, then its key", "a later row of a key is never given out before an earlier one that committed late", func(c *queueCase) {
		m, _ := c.join(longLease)
		keys := sameSlot(2)
		for i := range 20 {
			late := c.q.Begin(c)
			late.Append(c, event("t", keys[0], "1"))
			c.write(event("t", keys[1], "early"))
			rows := c.flow(m, store.Settlement{})
			c.types(rows, "early")
			if i%2 == 0 {
				c.next(m, store.Settlement{Sent: rows}, store.Want{})
			}
			// Whoever waited for the lock on the key writes at once.
			late.Commit(c)
			c.write(event("t", keys[0], "2"))
			rows = c.flow(m, store.Settlement{})
			c.types(rows, "1", "2")
			c.next(m, store.Settlement{Sent: rows}, store.Want{})
		}
	}},
	{"late commit of a younger transaction", "the same, where the transaction began after the one whose row was read", func(c *queueCase) {
		m, _ := c.join(longLease)
		keys := sameSlot(2)
		for range 20 {
			early, late := c.q.Begin(c), c.q.Begin(c)
			early.Append(c, event("t", keys[1], "early"))
			late.Append(c, event("t", keys[0], "1"))
			early.Append(c, event("t", keys[1], "early too"))
			early.Commit(c)
			rows := c.flow(m, store.Settlement{})
			c.types(rows, "early", "early too")
			late.Commit(c)
			c.write(event("t", keys[0], "2"))
			rows = append(rows, c.flow(m, store.Settlement{})...)
			c.types(rows, "early", "early too", "1", "2")
			c.next(m, store.Settlement{Sent: rows}, store.Want{})
		}
	}},
	{"late commit of a long transaction", "the same, where much was read and sent while the transaction was open", func(c *queueCase) {
		m, _ := c.join(longLease)
		keys := sameSlot(2)
		for range 5 {
			late := c.q.Begin(c)
			late.Append(c, event("t", keys[0], "1"))
			for range 5 {
				c.write(event("t", keys[1], "early"))
				rows := c.flow(m, store.Settlement{})
				c.types(rows, "early")
				c.next(m, store.Settlement{Sent: rows}, store.Want{Slots: allSlots, Flow: 10})
			}
			late.Commit(c)
			c.write(event("t", keys[0], "2"))
			rows := c.flow(m, store.Settlement{})
			c.types(rows, "1", "2")
			c.next(m, store.Settlement{Sent: rows}, store.Want{})
		}
	}},
	{"fair turns", "every slot has its turn, however many rows the others have", func(c *queueCase) {
		m, _ := c.join(longLease)
		var events []store.Event
		slots := map[int16]int{}
		for i := 0; len(events) < 10*store.Slots; i++ {
			if e := event("t", fmt.Sprint("k", i), "x"); slots[e.Slot()] < 10 {
				slots[e.Slot()]++
				events = append(events, e)
			}
		}
		c.write(events...)
		seen := map[int16]bool{}
		for range 60 {
			for _, r := range c.next(m, store.Settlement{}, store.Want{Slots: allSlots, Flow: 8}).Flow {
				seen[r.Slot] = true
			}
		}
		if len(seen) != store.Slots {
			c.Errorf("60 reads of 8 rows have reached %d slots", len(seen))
		}
	}},
}

// successor makes a member that holds all slots after m has left in good order.
func (c *queueCase) successor(m store.Member) store.Member {
	c.Helper()
	if err := m.Release(c.Context(), allSlots...); err != nil {
		c.Fatal(err)
	}
	if err := m.Leave(c.Context()); err != nil {
		c.Fatal(err)
	}
	other, h := c.join(longLease)
	if len(h.Gained) != store.Slots {
		c.Fatalf("the successor gained %d slots", len(h.Gained))
	}
	return other
}
