package memstore

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.Queue = (*Store)(nil)

// Join implements [store.Queue].
func (s *Store) Join(relay string, lease time.Duration) store.Member {
	return &member{s: s, name: relay, lease: lease, hands: make(map[int64]int16)}
}

// member implements [store.Member]. The store's mutex guards what it shares with others;
// its own fields are its goroutine's.
type member struct {
	s     *Store
	name  string
	lease time.Duration

	held [store.Slots]*heldSlot
	// hands are the rows in the relay's hands, each with its slot. Numbers are unique over
	// flowing and waiting rows.
	hands map[int64]int16
	// turn is the wanted slot with which reading the flow begins next.
	turn int
}

type heldSlot struct{ token, changed int64 }

func (m *member) lock(ctx context.Context, act string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "relay %s: %s: %w", m.name, act, err)
	}
	m.s.mu.Lock()
	return m.s.mu.Unlock, nil
}

// Hold implements [store.Member].
func (m *member) Hold(ctx context.Context) (store.Holding, error) {
	unlock, err := m.lock(ctx, "hold")
	if err != nil {
		return store.Holding{}, err
	}
	defer unlock()
	o := &m.s.outbox
	now := time.Now()
	h := store.Holding{Until: now.Add(m.lease)}
	share := o.beat(m.name, now, h.Until)

	owned := 0
	for i := range o.slots {
		if sl := &o.slots[i]; sl.holder == m.name {
			sl.until = h.Until
			owned++
		}
	}
	for i := range o.slots {
		if sl := &o.slots[i]; owned < share && sl.holder != m.name && !now.Before(sl.until) {
			sl.holder, sl.until = m.name, h.Until
			sl.token++
			owned++
		}
	}
	for i := range o.slots {
		m.compare(int16(i), &o.slots[i], &h)
	}
	h.Surplus = max(0, owned-share)
	return h, nil
}

// beat notes that a relay lives and returns the fair share of each.
func (o *outbox) beat(relay string, now, until time.Time) int {
	if o.relays == nil {
		o.relays = make(map[string]time.Time)
	}
	o.relays[relay] = until
	for name, until := range o.relays {
		if !now.Before(until) {
			delete(o.relays, name)
		}
	}
	living := max(1, len(o.relays))
	return (store.Slots + living - 1) / living
}

// compare notes what has become of a slot since the last time.
func (m *member) compare(i int16, sl *slot, h *store.Holding) {
	had := m.held[i]
	ours := sl.holder == m.name
	if had != nil && (!ours || had.token != sl.token) {
		m.forget(i)
		h.Lost = append(h.Lost, i)
		had = nil
	}
	switch {
	case !ours:
	case had == nil:
		m.held[i] = &heldSlot{sl.token, sl.changed}
		h.Gained = append(h.Gained, store.Gain{Slot: i, Suspect: sl.suspect})
		// From now on, until it is released.
		sl.suspect = true
	case had.changed != sl.changed:
		had.changed = sl.changed
		h.Changed = append(h.Changed, i)
	}
}

// forget drops a slot and the rows in hand that lie in it.
func (m *member) forget(slot int16) {
	m.held[slot] = nil
	for seq, at := range m.hands {
		if at == slot {
			delete(m.hands, seq)
		}
	}
}

// fence returns a slot that the member still holds. A slot that was taken over is forgotten
// and noted.
func (m *member) fence(i int16, lost *[]int16) (*slot, bool) {
	had := m.held[i]
	if had == nil {
		return nil, false
	}
	sl := &m.s.outbox.slots[i]
	if sl.token != had.token {
		m.forget(i)
		*lost = append(*lost, i)
		return nil, false
	}
	return sl, true
}

// Backlog implements [store.Member].
func (m *member) Backlog(ctx context.Context, slots []int16) ([]store.Backlog, error) {
	unlock, err := m.lock(ctx, "backlog")
	if err != nil {
		return nil, err
	}
	defer unlock()
	var all []store.Backlog
	for _, slot := range slots {
		for _, b := range m.s.outbox.slots[slot].backlog() {
			b.Slot = slot
			all = append(all, b)
		}
	}
	return all, nil
}

func (sl *slot) backlog() []store.Backlog {
	type place struct {
		destination, topic, key string
		keyed                   bool
	}
	var all []store.Backlog
	at := make(map[place]int)
	for _, w := range sl.waiting {
		p := place{w.Destination, w.Topic, string(w.Key), w.Key != nil}
		i, there := at[p]
		if !there {
			i = len(all)
			at[p] = i
			all = append(all, store.Backlog{Destination: w.Destination, Topic: w.Topic, Key: w.Key})
		}
		switch b := &all[i]; w.State {
		case store.Retrying:
			b.Retrying++
		case store.Behind:
			b.Behind++
		case store.Held:
			b.Held++
		case store.Parked:
			b.Parked++
		}
	}
	return all
}

// Release implements [store.Member].
func (m *member) Release(ctx context.Context, slots ...int16) error {
	unlock, err := m.lock(ctx, "release")
	if err != nil {
		return err
	}
	defer unlock()
	var lost []int16
	for _, i := range slots {
		if sl, ok := m.fence(i, &lost); ok {
			sl.holder, sl.until, sl.suspect = "", time.Time{}, false
			m.forget(i)
		}
	}
	return nil
}

// Leave implements [store.Member].
func (m *member) Leave(ctx context.Context) error {
	unlock, err := m.lock(ctx, "leave")
	if err != nil {
		return err
	}
	defer unlock()
	delete(m.s.outbox.relays, m.name)
	return nil
}
