package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// Next implements [store.Member].
func (m *member) Next(ctx context.Context, done store.Settlement, want store.Want) (store.Batch, error) {
	unlock, err := m.lock(ctx, "next")
	if err != nil {
		return store.Batch{}, err
	}
	defer unlock()
	var b store.Batch
	now := time.Now()
	m.settle(&done, now, &b.Lost)
	m.readKeys(&want, &b)
	m.readDue(&want, now, &b)
	m.readHeld(&want, &b)
	m.readFlow(&want, &b)
	return b, nil
}

// settle writes what became of rows. A row that is not where the member got it is passed
// over: the settlement was given before, or a person has removed it.
func (m *member) settle(done *store.Settlement, now time.Time, lost *[]int16) {
	for _, r := range done.Sent {
		delete(m.hands, r.Seq)
		sl, ok := m.fence(r.Slot, lost)
		switch {
		case !ok:
		case r.State == store.Flowing:
			sl.takeFlowing(r.Seq)
		default:
			sl.removeWaiting(r.Seq)
		}
	}
	for i := range done.Wait {
		w := &done.Wait[i]
		delete(m.hands, w.Row.Seq)
		if sl, ok := m.fence(w.Row.Slot, lost); ok {
			m.wait(sl, w, now)
		}
	}
	for _, r := range done.Back {
		delete(m.hands, r.Seq)
	}
}

// wait moves a row to the waiting ones, or changes how it waits.
func (m *member) wait(sl *slot, w *store.Wait, now time.Time) {
	i, waits := sl.findWaiting(w.Row.Seq)
	if w.Row.State == store.Flowing {
		row, ok := sl.takeFlowing(w.Row.Seq)
		if !ok {
			return
		}
		sl.waiting = slices.Insert(sl.waiting, i, &store.WaitingEvent{Row: *row, Since: now})
	} else if !waits {
		return
	}
	e := sl.waiting[i]
	e.State, e.Attempts, e.Starts, e.Reason = w.State, w.Attempts, w.Starts, w.Reason
	e.Changed, e.Due = now, time.Time{}
	if w.State == store.Retrying {
		e.Due = now.Add(max(w.After, 0))
	}
	if w.Keep {
		w.Row.State, w.Row.Attempts, w.Row.Starts = w.State, w.Attempts, w.Starts
		m.hands[w.Row.Seq] = w.Row.Slot
	}
}

// give hands a row out. Each relay gets a Row of its own, because it may change it; the
// bytes are shared and nobody's to change.
func (m *member) give(to *[]*store.Row, r *store.Row) {
	own := *r
	m.hands[r.Seq] = r.Slot
	*to = append(*to, &own)
}

// readWaiting gives out the first waiting rows of a slot that fit, most of them at most.
func (m *member) readWaiting(i int16, most int, fits func(*store.WaitingEvent) bool, to *[]*store.Row, lost *[]int16) {
	sl, ok := m.fence(i, lost)
	if !ok {
		return
	}
	for _, w := range sl.waiting {
		if most <= 0 {
			return
		}
		if _, inHand := m.hands[w.Seq]; !inHand && fits(w) {
			m.give(to, &w.Row)
			most--
		}
	}
}

func (m *member) readKeys(want *store.Want, b *store.Batch) {
	for _, k := range want.Keys {
		m.readWaiting(k.Slot, k.Most, func(w *store.WaitingEvent) bool {
			return w.Destination == k.Destination && (k.Topic == "" || w.Topic == k.Topic) &&
				w.Key != nil && bytes.Equal(w.Key, k.Key)
		}, &b.Keys, &b.Lost)
	}
}

func (m *member) readHeld(want *store.Want, b *store.Batch) {
	for _, h := range want.Held {
		for _, i := range h.Slots {
			m.readWaiting(i, h.Each, func(w *store.WaitingEvent) bool {
				return w.State == store.Held && w.Destination == h.Destination && w.Topic == h.Topic
			}, &b.Held, &b.Lost)
		}
	}
}

// readDue gives out the retries that have been due for longest.
func (m *member) readDue(want *store.Want, now time.Time, b *store.Batch) {
	if want.Due <= 0 {
		return
	}
	var due []*store.WaitingEvent
	for _, i := range want.Slots {
		sl, ok := m.fence(i, &b.Lost)
		if !ok {
			continue
		}
		for _, w := range sl.waiting {
			if _, inHand := m.hands[w.Seq]; !inHand && w.State == store.Retrying && !now.Before(w.Due) {
				due = append(due, w)
			}
		}
	}
	slices.SortFunc(due, func(a, b *store.WaitingEvent) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Seq, b.Seq))
	})
	for _, w := range due[:min(len(due), want.Due)] {
		m.give(&b.Due, &w.Row)
	}
}

// readFlow deals flowing rows out, one of each slot in turn. It passes over those in the
// relay's hands, so a row that was given back comes before the later ones of its key.
func (m *member) readFlow(want *store.Want, b *store.Batch) {
	if want.Flow <= 0 {
		return
	}
	var next []func() *store.Row
	for n := range want.Slots {
		i := want.Slots[(m.turn+n)%len(want.Slots)]
		if sl, ok := m.fence(i, &b.Lost); ok {
			next = append(next, m.flowing(sl))
		}
	}
	m.turn++
	for len(next) > 0 {
		alive := next[:0]
		for _, row := range next {
			r := row()
			if r == nil {
				continue
			}
			if len(b.Flow) == want.Flow {
				b.More = true
				return
			}
			m.give(&b.Flow, r)
			alive = append(alive, row)
		}
		next = alive
	}
}

// flowing walks over the rows of a slot that are not in the relay's hands.
func (m *member) flowing(sl *slot) func() *store.Row {
	at := sl.flow.Front()
	return func() *store.Row {
		for at != nil {
			r := at.Value.(*store.Row)
			at = at.Next()
			if _, inHand := m.hands[r.Seq]; !inHand {
				return r
			}
		}
		return nil
	}
}
