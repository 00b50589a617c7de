package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.OutboxAdmin = (*Store)(nil)

// ListWaiting implements [store.OutboxAdmin].
func (s *Store) ListWaiting(ctx context.Context, f store.WaitingFilter, after int64, limit int) ([]store.WaitingEvent, error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "list waiting events: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.WaitingEvent
	for _, w := range s.outbox.choose(f, limit, func(w *store.WaitingEvent) bool { return w.Seq > after }) {
		found = append(found, *w)
		found[len(found)-1].Event = cloneEvent(w.Event)
	}
	return found, nil
}

// RetryWaiting implements [store.OutboxAdmin].
func (s *Store) RetryWaiting(ctx context.Context, f store.WaitingFilter, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "retry waiting events: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	chosen := s.outbox.choose(f, limit, func(w *store.WaitingEvent) bool {
		return w.State == store.Parked || w.State == store.Retrying
	})
	for _, w := range chosen {
		w.State, w.Attempts, w.Starts, w.Due, w.Changed = store.Retrying, 0, 0, now, now
		s.outbox.slots[w.Slot].changed++
	}
	return len(chosen), nil
}

// DiscardParked implements [store.OutboxAdmin].
func (s *Store) DiscardParked(ctx context.Context, f store.WaitingFilter, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "discard parked events: %w", err)
	}
	if len(f.IDs) == 0 && f.Destination == "" && f.Topic == "" && f.Key == nil && f.ChangedSince.IsZero() {
		return 0, failf(store.FaultHandler, "discard parked events: the filter is empty: say which, by id, destination, topic, key or time")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen := s.outbox.choose(f, limit, func(w *store.WaitingEvent) bool { return w.State == store.Parked })
	for _, w := range chosen {
		sl := &s.outbox.slots[w.Slot]
		sl.removeWaiting(w.Seq)
		sl.changed++
	}
	return len(chosen), nil
}

// choose returns the oldest waiting events that fit, limit of them at most.
func (o *outbox) choose(f store.WaitingFilter, limit int, also func(*store.WaitingEvent) bool) []*store.WaitingEvent {
	var found []*store.WaitingEvent
	for i := range o.slots {
		for _, w := range o.slots[i].waiting {
			if fits(f, w) && also(w) {
				found = append(found, w)
			}
		}
	}
	slices.SortFunc(found, func(a, b *store.WaitingEvent) int { return cmp.Compare(a.Seq, b.Seq) })
	return found[:min(len(found), max(limit, 0))]
}

func fits(f store.WaitingFilter, w *store.WaitingEvent) bool {
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, w.ID)) &&
		(f.Destination == "" || f.Destination == w.Destination) &&
		(f.Topic == "" || f.Topic == w.Topic) &&
		(f.Key == nil || w.Key != nil && bytes.Equal(f.Key, w.Key)) &&
		(f.State == 0 || f.State == w.State) &&
		!w.Changed.Before(f.ChangedSince)
}

// OutboxStats implements [store.OutboxAdmin].
func (s *Store) OutboxStats(ctx context.Context) (store.OutboxStats, error) {
	if err := ctx.Err(); err != nil {
		return store.OutboxStats{}, failf(store.FaultCanceled, "outbox stats: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var st store.OutboxStats
	for _, until := range s.outbox.relays {
		if now.Before(until) {
			st.Relays++
		}
	}
	for i := range s.outbox.slots {
		s.outbox.slots[i].count(&st, now)
	}
	return st, nil
}

func (sl *slot) count(st *store.OutboxStats, now time.Time) {
	if sl.holder == "" || !now.Before(sl.until) {
		st.FreeSlots++
	}
	st.Flowing += int64(sl.flow.Len())
	for e := sl.flow.Front(); e != nil; e = e.Next() {
		st.Oldest = max(st.Oldest, now.Sub(e.Value.(*store.Row).WrittenAt))
	}
	for _, w := range sl.waiting {
		st.OldestWaiting = max(st.OldestWaiting, now.Sub(w.WrittenAt))
		switch w.State {
		case store.Retrying:
			st.Retrying++
		case store.Behind:
			st.Behind++
		case store.Held:
			st.Held++
		case store.Parked:
			st.Parked++
		}
	}
}
