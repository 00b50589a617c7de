package outboxtest

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

var queueWaiting = []queueTest{
	{"due", "a retry comes when its time has come and not before, with its attempts", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "soon"), event("t", "", "later"))
		s := store.Settlement{}
		for _, r := range c.flow(m, store.Settlement{}) {
			after := time.Hour
			if r.Type == "soon" {
				after = 200 * time.Millisecond
			}
			s.Wait = append(s.Wait, store.Wait{Row: r, State: store.Retrying, Attempts: 3, After: after, Reason: "not now"})
		}
		start := time.Now()
		want := store.Want{Slots: allSlots, Due: 10}
		b := c.next(m, s, want)
		for len(b.Due) == 0 && time.Since(start) < 20*time.Second {
			time.Sleep(5 * time.Millisecond)
			b = c.next(m, store.Settlement{}, want)
		}
		c.types(b.Due, "soon")
		if took := time.Since(start); took < 190*time.Millisecond {
			c.Errorf("it came after %s", took)
		}
		if r := b.Due[0]; r.State != store.Retrying || r.Attempts != 3 || string(r.Payload) != "soon" {
			c.Errorf("it came as %s with %d attempts", r.State, r.Attempts)
		}
		c.types(c.next(m, store.Settlement{}, want).Due)
		c.next(m, store.Settlement{Sent: b.Due}, store.Want{})
		if n := c.count(store.Retrying); n != 1 {
			c.Errorf("%d retries are left, want 1", n)
		}
	}},
	{"held", "held rows of a topic come in order, also those that are put back or held late", func(c *queueCase) {
		m, _ := c.join(longLease)
		for i := range 6 {
			c.write(event("t", "k", fmt.Sprint(i)))
			c.write(event("other", "o", fmt.Sprint("o", i)))
		}
		var rows []*store.Row
		for _, r := range c.flow(m, store.Settlement{}) {
			if r.Topic == "t" {
				rows = append(rows, r)
			} else {
				c.next(m, waitAs(store.Held, 0, r), store.Want{})
			}
		}
		c.next(m, waitAs(store.Held, 0, rows[2:]...), store.Want{})
		want := store.Want{Slots: allSlots, Held: []store.WantHeld{{Destination: "d", Topic: "t", Slots: allSlots, Each: 2}}}
		got := c.next(m, store.Settlement{}, want).Held
		c.types(got, "2", "3")
		// The same call holds earlier ones and puts one back.
		s := waitAs(store.Held, 0, rows[:2]...)
		s.Back = got[1:]
		all := c.next(m, s, want).Held
		for range 10 {
			all = append(all, c.next(m, store.Settlement{}, want).Held...)
		}
		c.types(all, "0", "1", "3", "4", "5")
	}},
	{"held by slot", "of each slot that is asked for no more come than are wanted", func(c *queueCase) {
		m, _ := c.join(longLease)
		var rows []*store.Row
		for i := range 40 {
			c.write(event("t", fmt.Sprint("k", i), "x"), event("t", fmt.Sprint("k", i), "x"))
		}
		rows = c.flow(m, store.Settlement{})
		slots := map[int16]int{}
		for _, r := range rows {
			slots[r.Slot]++
		}
		c.next(m, waitAs(store.Held, 0, rows...), store.Want{})
		b := c.next(m, store.Settlement{}, store.Want{Slots: allSlots, Held: []store.WantHeld{{Destination: "d", Topic: "t", Slots: allSlots, Each: 1}}})
		if len(b.Held) != len(slots) {
			c.Errorf("%d rows came of %d slots", len(b.Held), len(slots))
		}
	}},
	{"by key", "a key's waiting rows come in order, whatever their state, one topic or all", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("u", "k", "2"), event("t", "k", "3"), event("t", "other", "4"))
		rows := map[string]*store.Row{}
		for _, r := range c.flow(m, store.Settlement{}) {
			rows[r.Type] = r
		}
		s := waitAs(store.Held, 0, rows["1"])
		s.Wait = append(s.Wait, waitAs(store.Behind, 0, rows["2"], rows["3"], rows["4"]).Wait...)
		one := store.WantKey{Slot: rows["1"].Slot, Destination: "d", Key: []byte("k"), Most: 10}
		// The call that settles them reads them already.
		b := c.next(m, s, store.Want{Slots: allSlots, Keys: []store.WantKey{one}})
		c.types(b.Keys, "1", "2", "3")
		// So does a call that settles what it has given out.
		s = waitAs(store.Behind, 0, b.Keys[0])
		s.Back = b.Keys[1:]
		b = c.next(m, s, store.Want{Slots: allSlots, Keys: []store.WantKey{one}})
		c.types(b.Keys, "1", "2", "3")
		c.next(m, store.Settlement{Back: b.Keys}, store.Want{})
		one.Topic = "t"
		c.types(c.next(m, store.Settlement{}, store.Want{Slots: allSlots, Keys: []store.WantKey{one}}).Keys, "1", "3")
	}},
	{"keep", "a start that is noted is seen by the next holder, and the row can still be sent", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("t", "", "2"))
		rows := c.flow(m, store.Settlement{})
		s := store.Settlement{}
		for _, r := range rows {
			s.Wait = append(s.Wait, store.Wait{Row: r, State: store.Retrying, Starts: 1, Keep: true})
		}
		want := store.Want{Slots: allSlots, Due: 10}
		c.types(c.next(m, s, want).Due) // they are in the relay's hands
		for _, r := range rows {
			if r.State != store.Retrying || r.Starts != 1 {
				c.Errorf("the kept row is %s with %d starts", r.State, r.Starts)
			}
		}
		c.next(m, store.Settlement{Sent: rows[:1]}, store.Want{})
		other := c.successor(m)
		b := c.next(other, store.Settlement{}, want)
		c.types(b.Due, rows[1].Type)
		if len(b.Due) == 1 && b.Due[0].Starts != 1 {
			c.Errorf("it came with %d starts", b.Due[0].Starts)
		}
	}},
	{"repeat", "a settlement that is given twice is settled once", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("t", "", "2"), event("t", "k", "3"))
		rows := c.flow(m, store.Settlement{})
		s := waitAs(store.Parked, 0, rows[0])
		s.Sent = rows[1:2]
		for range 3 {
			c.next(m, s, store.Want{})
		}
		if n := c.count(store.Parked); n != 1 {
			c.Errorf("%d rows are parked, want 1", n)
		}
	}},
	{"backlog", "the backlog counts what waits, by destination, topic and key", func(c *queueCase) {
		m, _ := c.join(longLease)
		c.write(event("t", "k", "1"), event("t", "k", "2"), event("u", "k", "3"), event("t", "k", "4"))
		rows := c.flow(m, store.Settlement{})
		s := waitAs(store.Parked, 0, rows[0])
		s.Wait = append(s.Wait, waitAs(store.Behind, 0, rows[1], rows[2]).Wait...)
		s.Wait = append(s.Wait, waitAs(store.Held, 0, rows[3]).Wait...)
		c.next(m, s, store.Want{})
		other := c.successor(m)
		backlog, err := other.Backlog(c.Context(), allSlots)
		if err != nil {
			c.Fatal(err)
		}
		got := map[string]store.Backlog{}
		for _, b := range backlog {
			got[b.Topic] = b
		}
		if b := got["t"]; len(backlog) != 2 || b.Slot != rows[0].Slot || b.Parked != 1 || b.Behind != 1 || b.Held != 1 || string(b.Key) != "k" || got["u"].Behind != 1 {
			c.Errorf("the backlog is %+v", backlog)
		}
	}},
}

func (c *queueCase) count(state store.RowState) int {
	c.Helper()
	all, err := c.q.Admin.ListWaiting(c.Context(), store.WaitingFilter{State: state}, 0, 1000)
	if err != nil {
		c.Fatal(err)
	}
	return len(all)
}
