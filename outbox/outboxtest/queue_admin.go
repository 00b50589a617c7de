package outboxtest

import (
	"time"

	"github.com/semel-dev/semel/store"
)

var queueAdmin = []queueTest{
	{"list", "what waits can be listed by every filter, with reason and times", func(c *queueCase) {
		_, rows := c.parked()
		for name, test := range map[string]struct {
			f    store.WaitingFilter
			want []string
		}{
			"all":         {store.WaitingFilter{}, []string{"1", "2", "3"}},
			"id":          {store.WaitingFilter{IDs: []store.ID{rows[0].ID}}, []string{"1"}},
			"topic":       {store.WaitingFilter{Destination: "d", Topic: "u"}, []string{"3"}},
			"destination": {store.WaitingFilter{Destination: "nobody"}, nil},
			"key":         {store.WaitingFilter{Key: []byte("k")}, []string{"1", "2"}},
			"state":       {store.WaitingFilter{State: store.Parked}, []string{"1", "3"}},
			"time":        {store.WaitingFilter{ChangedSince: time.Now().Add(time.Hour)}, nil},
		} {
			all, err := c.q.Admin.ListWaiting(c.Context(), test.f, 0, 10)
			if err != nil {
				c.Fatal(err)
			}
			var got []*store.Row
			for i := range all {
				got = append(got, &all[i].Row)
				if all[i].Reason != "reason" || all[i].Since.IsZero() || all[i].Changed.IsZero() {
					c.Errorf("%s: %+v", name, all[i])
				}
			}
			c.Log(name)
			c.types(got, test.want...)
		}
		page, err := c.q.Admin.ListWaiting(c.Context(), store.WaitingFilter{}, rows[0].Seq, 1)
		if err != nil || len(page) != 1 || page[0].Type != "2" {
			c.Errorf("the page after the first is %+v, %v", page, err)
		}
	}},
	{"retry", "a parked event that is retried is due at once with all attempts, and its holder notices", func(c *queueCase) {
		m, rows := c.parked()
		n, err := c.q.Admin.RetryWaiting(c.Context(), store.WaitingFilter{Key: []byte("k")}, 10)
		if err != nil || n != 1 {
			c.Fatal(n, err)
		}
		if h := c.hold(m); len(h.Changed) != 1 || h.Changed[0] != rows[0].Slot {
			c.Errorf("changed are %v", h.Changed)
		}
		b := c.next(m, store.Settlement{}, store.Want{Slots: allSlots, Due: 10})
		c.types(b.Due, "1")
		if len(b.Due) == 1 && b.Due[0].Attempts != 0 {
			c.Errorf("it has %d attempts", b.Due[0].Attempts)
		}
	}},
	{"discard", "a parked event that is discarded is gone; what waits behind it stays; its holder notices", func(c *queueCase) {
		m, rows := c.parked()
		if n, err := c.q.Admin.DiscardParked(c.Context(), store.WaitingFilter{State: store.Parked}, 10); err == nil {
			c.Errorf("an empty filter discarded %d events", n)
		}
		n, err := c.q.Admin.DiscardParked(c.Context(), store.WaitingFilter{IDs: []store.ID{rows[0].ID, rows[1].ID}}, 10)
		if err != nil || n != 1 {
			c.Fatal(n, err)
		}
		if h := c.hold(m); len(h.Changed) != 1 {
			c.Errorf("changed are %v", h.Changed)
		}
		if c.count(store.Behind) != 1 || c.count(store.Parked) != 1 {
			c.Error("not only the parked one is gone")
		}
	}},
	{"limit", "no more are changed than was said, the oldest first", func(c *queueCase) {
		c.parked()
		n, err := c.q.Admin.RetryWaiting(c.Context(), store.WaitingFilter{Destination: "d"}, 1)
		if err != nil || n != 1 || c.count(store.Retrying) != 1 {
			c.Fatal(n, err)
		}
		all, err := c.q.Admin.ListWaiting(c.Context(), store.WaitingFilter{State: store.Retrying}, 0, 10)
		if err != nil || len(all) != 1 || all[0].Type != "1" {
			c.Errorf("retried was %+v, %v", all, err)
		}
	}},
	{"stats", "the counts are right", func(c *queueCase) {
		m, _ := c.parked()
		c.write(event("t", "flowing", "4"))
		s, err := c.q.Admin.OutboxStats(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		if s.Flowing != 1 || s.Parked != 2 || s.Behind != 1 || s.Held+s.Retrying != 0 || s.Relays != 1 || s.FreeSlots != 0 {
			c.Errorf("the counts are %+v", s)
		}
		if err := m.Release(c.Context(), allSlots...); err != nil {
			c.Fatal(err)
		}
		if s, err = c.q.Admin.OutboxStats(c.Context()); err != nil || s.FreeSlots != store.Slots {
			c.Errorf("%d slots are free, %v", s.FreeSlots, err)
		}
	}},
}

// parked writes 1 and 2 of key k and 3 of another topic and key; 1 and 3 are parked.
func (c *queueCase) parked() (store.Member, []*store.Row) {
	c.Helper()
	m, _ := c.join(longLease)
	other := event("u", "other", "3")
	for i := 0; other.Slot() == (&store.Event{Destination: "d", Key: []byte("k")}).Slot(); i++ {
		other = event("u", "other"+string(rune('a'+i)), "3")
	}
	c.write(event("t", "k", "1"), event("t", "k", "2"), other)
	rows := make([]*store.Row, 3)
	for _, r := range c.flow(m, store.Settlement{}) {
		rows[r.Type[0]-'1'] = r
		r.Attempts = 7
	}
	s := waitAs(store.Parked, 0, rows[0], rows[2])
	s.Wait = append(s.Wait, waitAs(store.Behind, 0, rows[1]).Wait...)
	c.next(m, s, store.Want{})
	return m, rows
}
