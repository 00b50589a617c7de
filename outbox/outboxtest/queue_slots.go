package outboxtest

import (
	"time"

	"github.com/semel-dev/semel/store"
)

var queueSlots = []queueTest{
	{"alone", "a single member gets all slots, unsuspected, and keeps them", func(c *queueCase) {
		m, h := c.join(longLease)
		if len(h.Gained) != store.Slots || h.Surplus != 0 || !h.Until.After(time.Now()) {
			c.Errorf("gained %d slots until %s, surplus %d", len(h.Gained), h.Until, h.Surplus)
		}
		for _, g := range h.Gained {
			if g.Suspect {
				c.Errorf("slot %d is suspect", g.Slot)
			}
		}
		if h = c.hold(m); len(h.Gained)+len(h.Lost)+len(h.Changed)+h.Surplus != 0 {
			c.Errorf("a second Hold says %+v", h)
		}
	}},
	{"fair share", "members share the slots, and one that has left leaves its share", func(c *queueCase) {
		a, _ := c.join(longLease)
		b, h := c.join(longLease)
		if len(h.Gained) != 0 {
			c.Errorf("the second one gained %d slots that the first one has", len(h.Gained))
		}
		h = c.hold(a)
		if h.Surplus != store.Slots/2 {
			c.Fatalf("the first one has a surplus of %d", h.Surplus)
		}
		if err := a.Release(c.Context(), allSlots[:h.Surplus]...); err != nil {
			c.Fatal(err)
		}
		if h = c.hold(a); len(h.Gained) != 0 {
			c.Errorf("the first one took %d slots back", len(h.Gained))
		}
		if h = c.hold(b); len(h.Gained) != store.Slots/2 || h.Gained[0].Suspect {
			c.Errorf("the second one gained %d slots after the release", len(h.Gained))
		}
		if h = c.hold(a); len(h.Gained)+len(h.Lost)+h.Surplus != 0 {
			c.Errorf("the first one is told %+v", h)
		}
		if err := a.Release(c.Context(), allSlots[store.Slots/2:]...); err != nil {
			c.Fatal(err)
		}
		if err := a.Leave(c.Context()); err != nil {
			c.Fatal(err)
		}
		if h = c.hold(b); len(h.Gained) != store.Slots/2 {
			c.Errorf("the second one gained %d slots after the first one had left", len(h.Gained))
		}
	}},
	{"dead member", "slots of a member that is not heard of fall to the others, suspected", func(c *queueCase) {
		c.join(time.Second)
		b, _ := c.join(longLease)
		var gained []store.Gain
		for deadline := time.Now().Add(20 * time.Second); len(gained) < store.Slots && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			gained = append(gained, c.hold(b).Gained...)
		}
		if len(gained) != store.Slots {
			c.Fatalf("it gained %d slots", len(gained))
		}
		for _, g := range gained {
			if !g.Suspect {
				c.Errorf("slot %d is not suspect", g.Slot)
			}
		}
	}},
	{"fence", "a member that was replaced changes nothing, and learns it from the attempt", func(c *queueCase) {
		a, _ := c.join(time.Second)
		c.write(event("t", "k", "sent"), event("t", "k", "parked"), event("t", "k", "held"))
		old := c.flow(a, store.Settlement{})
		b, rows := c.usurp(a)
		c.types(rows, "sent", "parked", "held")
		s := waitAs(store.Parked, 0, old[1])
		s.Wait = append(s.Wait, waitAs(store.Held, 0, old[2]).Wait...)
		s.Sent = old[:1]
		batch := c.next(a, s, store.Want{})
		if len(batch.Lost) != 1 || batch.Lost[0] != old[0].Slot {
			c.Errorf("it lost %v, want slot %d", batch.Lost, old[0].Slot)
		}
		if n := c.count(store.Parked) + c.count(store.Held); n != 0 {
			c.Errorf("%d rows wait", n)
		}
		// All is as the new holder has it.
		c.next(b, store.Settlement{Sent: rows[1:]}, store.Want{})
		c.types(c.flow(c.successor(b), store.Settlement{}), "sent")
	}},
	{"fence, waiting rows", "nor does it change what waits", func(c *queueCase) {
		a, _ := c.join(time.Second)
		c.write(event("t", "k", "1"), event("t", "k", "2"))
		rows := c.flow(a, store.Settlement{})
		s := waitAs(store.Retrying, 0, rows[0])
		s.Wait = append(s.Wait, waitAs(store.Behind, 0, rows[1]).Wait...)
		key := store.Want{Slots: allSlots, Keys: []store.WantKey{{Slot: rows[0].Slot, Destination: "d", Key: []byte("k"), Most: 10}}}
		old := c.next(a, s, key).Keys
		c.types(old, "1", "2")
		c.usurp(a)
		s = waitAs(store.Parked, 0, old[0])
		s.Sent = old[1:]
		if batch := c.next(a, s, store.Want{}); len(batch.Lost) != 1 {
			c.Errorf("it lost %v", batch.Lost)
		}
		if c.count(store.Retrying) != 1 || c.count(store.Behind) != 1 {
			c.Error("the rows are not as they were")
		}
	}},
	{"lost", "Hold tells a member what it lost, and forgets the rows", func(c *queueCase) {
		a, _ := c.join(time.Second)
		c.write(event("t", "k", "1"))
		c.flow(a, store.Settlement{})
		c.usurp(a)
		if h := c.hold(a); len(h.Lost) != store.Slots {
			c.Errorf("it lost %d slots", len(h.Lost))
		}
	}},
	{"until", "Until never promises more than the store keeps", func(c *queueCase) {
		a, h := c.join(2 * time.Second)
		_ = a
		b, _ := c.join(longLease)
		for time.Now().Before(h.Until) {
			if got := c.hold(b); len(got.Gained) > 0 && time.Now().Before(h.Until) {
				c.Fatalf("%d slots were lost %s before the end", len(got.Gained), time.Until(h.Until))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}},
}

// usurp waits until all of a dead member's slots have fallen to a new one, and reads the flow
// with it.
func (c *queueCase) usurp(store.Member) (store.Member, []*store.Row) {
	c.Helper()
	b, h := c.join(longLease)
	gained := len(h.Gained)
	for deadline := time.Now().Add(20 * time.Second); gained < store.Slots && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		gained += len(c.hold(b).Gained)
	}
	if gained < store.Slots {
		c.Fatalf("the new member gained %d slots", gained)
	}
	return b, c.flow(b, store.Settlement{})
}
