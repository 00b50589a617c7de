package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

const topicDown = "its topic cannot be reached"

// admit takes in what was read and decides for each row whether it may go.
func (p *pump) admit(b *store.Batch, asked *ask, now time.Time) {
	p.admitKeys(b.Keys, asked, now)
	for _, row := range b.Due {
		p.admitDue(row, now)
	}
	p.admitHeld(b.Held, asked, now)
	for _, row := range b.Flow {
		p.admitFlow(row, now)
	}
	if asked.want.Flow > 0 {
		p.more = p.more || b.More
	}
	if len(b.Due) == asked.want.Due && asked.want.Due > 0 {
		p.dueAt = now
	}
	for _, s := range p.slots {
		if s != nil && s.suspect > 0 && now.After(s.suspectUntil) {
			s.suspect = 0
		}
	}
}

// item begins a row's time in the relay's hands; nil where its slot is not held any more.
func (p *pump) item(row *store.Row) (it item, ok bool) {
	s := p.slots[row.Slot]
	if s == nil {
		return it, false
	}
	s.open++
	d := p.dests[row.Destination]
	if d == nil {
		d = p.destination(row.Destination)
	}
	return item{row: row, slot: s, dest: d}, true
}

// send sends a row on its way, with its start noted first where somebody may have died of it.
func (p *pump) send(it item) {
	switch s := it.slot; {
	case it.row.Starts > 0:
		if it.key != nil {
			// The others of its key wait for it.
			it.key.mode = keyHeaded
		}
		p.beginAlone(it)
	case s.suspect > 0, it.key != nil && it.key.starting > 0:
		// Also behind rows of its key whose start is being noted: without a note of its own it would be sent
		// before them.
		s.suspect = max(0, s.suspect-1)
		p.begin(it)
	default:
		p.enqueue(it)
	}
}

func (p *pump) admitFlow(row *store.Row, now time.Time) {
	it, ok := p.item(row)
	if !ok {
		return
	}
	switch {
	case it.dest.publisher == nil:
		p.hold(&it, "there is no publisher for its destination", now)
	case it.slot.suspect == 0 && !it.slot.closed && !p.stopping:
		// Whether it may go is decided when its turn has come.
		p.enqueue(it)
	case p.passes(&it, now):
		p.send(it)
	}
}

// passes says whether a row may be sent now. Where it may not, its end is decided.
func (p *pump) passes(it *item, now time.Time) bool {
	s := it.slot
	switch {
	case s.lost:
		return false
	case s.closed || p.stopping:
		p.back(it)
		return false
	case it.row.State == store.Flowing:
		if k := s.blocked(it.dest, &it.row.Event); k != nil {
			p.behind(it, k)
			return false
		}
	case it.key != nil && it.turn != it.key.turn:
		// An earlier row of its key has failed since.
		p.back(it)
		return false
	}
	if r := p.routeOf(&it.row.Event); r != nil && r.down && !it.probe {
		p.stayHeld(it, topicDown, now)
		return false
	}
	return true
}

// waiting begins the time of a waiting row. A key that the relay does not know of was changed
// by somebody else: then the slot is read anew.
func (p *pump) waiting(row *store.Row) (it item, ok bool) {
	it, ok = p.item(row)
	if !ok {
		return it, false
	}
	if row.Key != nil {
		if it.key = it.slot.blocked(it.dest, &row.Event); it.key == nil {
			p.back(&it)
			p.reread([]int16{row.Slot})
			return it, false
		}
		it.key.hand++
		it.turn = it.key.turn
	}
	return it, true
}

func (p *pump) admitDue(row *store.Row, now time.Time) {
	it, ok := p.waiting(row)
	if !ok {
		return
	}
	if it.key != nil {
		it.key.mode = keyHeaded
	}
	if it.dest.publisher == nil {
		p.hold(&it, "there is no publisher for its destination", now)
		return
	}
	if r := p.routeOf(&row.Event); r != nil && r.down && !it.slot.closed {
		p.hold(&it, topicDown, now)
		return
	}
	if p.passes(&it, now) {
		p.send(it)
	}
}

// admitKeys takes in rows of keys that are served, each key's in order.
func (p *pump) admitKeys(rows []*store.Row, asked *ask, now time.Time) {
	came := map[*key]bool{}
	stopped := map[*key]bool{}
	for _, row := range rows {
		it, ok := p.waiting(row)
		if !ok {
			continue
		}
		k := it.key
		if k == nil {
			p.back(&it)
			continue
		}
		came[k] = true
		if stopped[k] {
			p.back(&it)
			continue
		}
		stopped[k] = !p.serveRow(it, now)
	}
	for _, w := range asked.keys {
		if s := w.slot; !s.lost && !came[w.key] && w.key.rows > 0 && w.key.hand == 0 && w.key.mode == keyServed {
			// The record and the store differ.
			p.reread([]int16{s.number})
		}
	}
}

// serveRow sends a served key's next row and says whether those behind it may go, too.
func (p *pump) serveRow(it item, now time.Time) bool {
	k := it.key
	k.mode = keyServed
	switch r := p.routeOf(&it.row.Event); {
	case it.slot.closed || p.stopping:
		p.back(&it)
		return false
	case it.row.State == store.Parked || it.row.State == store.Retrying:
		k.mode = keyHeaded
		p.back(&it)
		return false
	case it.dest.publisher == nil:
		p.stayHeld(&it, "there is no publisher for its destination", now)
		return false
	case r != nil && r.down && k.hand > 1:
		p.back(&it) // not before those that are in hand
		return false
	case r != nil && r.down && r.probing == nil && !now.Before(r.probeAt):
		// It may be the only one there is to try the topic with.
		it.alone, it.probe = true, true
		r.probing, k.mode = it.slot, keyHeaded
		p.send(it)
		return false
	case r != nil && r.down:
		p.stayHeld(&it, topicDown, now)
		return false
	}
	p.send(it)
	return k.mode == keyServed
}
