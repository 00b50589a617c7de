package memstore

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.Appender[*Tx] = (*Store)(nil)

// AppendTx implements [store.Appender]. The events get their place in the queue at the
// commit, so none ever comes late behind a higher one.
func (s *Store) AppendTx(ctx context.Context, tx *Tx, events []store.Event) error {
	if tx.s != s {
		return failf(store.FaultHandler, "append: the transaction belongs to another store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return tx.spoil(failf(store.FaultCanceled, "append: %w", err))
	}
	for _, e := range events {
		tx.events = append(tx.events, cloneEvent(e))
	}
	return nil
}

func cloneEvent(e store.Event) store.Event {
	e.Key = bytes.Clone(e.Key)
	e.Payload = bytes.Clone(e.Payload)
	e.Headers = slices.Clone(e.Headers)
	for i := range e.Headers {
		e.Headers[i].Value = bytes.Clone(e.Headers[i].Value)
	}
	return e
}

// outbox is what relays share. It is guarded by the store's mutex.
type outbox struct {
	lastSeq int64
	slots   [store.Slots]slot
	// relays are the living members: until when each is taken for alive.
	relays map[string]time.Time
}

// slot is one part of the outbox with its holder.
type slot struct {
	holder  string
	token   int64
	until   time.Time
	suspect bool // was taken and not released since
	changed int64

	// flow has the flowing rows in order; bySeq finds them there.
	flow  list.List
	bySeq map[int64]*list.Element
	// waiting has the others, in order.
	waiting []*store.WaitingEvent
}

func (o *outbox) append(e store.Event, began time.Time) {
	o.lastSeq++
	row := &store.Row{Event: e, Slot: e.Slot(), Seq: o.lastSeq, State: store.Flowing, WrittenAt: began}
	sl := &o.slots[row.Slot]
	if sl.bySeq == nil {
		sl.bySeq = make(map[int64]*list.Element)
	}
	sl.bySeq[row.Seq] = sl.flow.PushBack(row)
}

// takeFlowing removes a row from the flow.
func (sl *slot) takeFlowing(seq int64) (*store.Row, bool) {
	e, ok := sl.bySeq[seq]
	if !ok {
		return nil, false
	}
	delete(sl.bySeq, seq)
	return sl.flow.Remove(e).(*store.Row), true
}

// findWaiting returns where a row waits, or where it would.
func (sl *slot) findWaiting(seq int64) (int, bool) {
	return slices.BinarySearchFunc(sl.waiting, seq, func(w *store.WaitingEvent, seq int64) int {
		return cmp.Compare(w.Seq, seq)
	})
}

func (sl *slot) removeWaiting(seq int64) {
	if i, ok := sl.findWaiting(seq); ok {
		sl.waiting = slices.Delete(sl.waiting, i, i+1)
	}
}
