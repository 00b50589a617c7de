package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// slot is a slot that the relay holds.
type slot struct {
	number int16
	// closed: nothing more is begun with its rows, for one of the reasons below.
	closed bool
	// lost: somebody else holds it. Whatever comes back of its rows is ignored.
	lost bool
	// leaving: it is given back as soon as none of its rows is in the relay's hands.
	leaving bool
	// unread: what waits in it is not known yet, or not any more.
	unread bool
	// open counts its rows in the relay's hands, until their end is stored.
	open int

	keys   map[keyID]*key
	wanted []wantedKey

	// suspect counts the rows that are still begun with their start noted, until a time.
	suspect      int
	suspectUntil time.Time
}

const (
	// A relay may have died of any row that it was sending, so the first ones of a slot that
	// it left behind are begun with a note. That costs a round trip, and ends when as
	// many have passed as a relay has in hand of one slot, or none has done harm for a while.
	suspectRows = 256
	suspectTime = 10 * time.Second
	// suspectStep is how many such rows are in the relay's hands at once: the fewer, the
	// sooner the one is found. Those whose start was noted before go one at a time.
	suspectStep = 100
	// solitaryStarts is how often a row has been begun and not heard of again when it goes only
	// while nothing else does. A death then has one cause, so that a row that was merely on
	// its way when others did harm is not taken for one that does.
	solitaryStarts = 2
	// maxStarts is how often a row may be begun and never heard of again.
	maxStarts = 4
)

// gain takes slots over.
func (p *pump) gain(gains []store.Gain, now time.Time) {
	for _, g := range gains {
		// A relay that stops was given them by a call that was under way, and gives them back.
		s := &slot{number: g.Slot, unread: true, closed: true, leaving: p.stopping, keys: map[keyID]*key{}}
		if g.Suspect {
			s.suspect, s.suspectUntil = suspectRows, now.Add(suspectTime)
		}
		p.slots[g.Slot] = s
	}
	if len(gains) > 0 {
		p.log.Info("slots gained", "slots", len(gains))
		p.more, p.dueAt = true, now
	}
}

// lose forgets a slot: its rows are somebody else's.
func (p *pump) lose(numbers []int16) {
	for _, n := range numbers {
		if s := p.slots[n]; s != nil {
			s.lost, s.closed = true, true
			p.slots[n] = nil
			p.done = without(p.done, n)
			p.forgetHeld(n)
		}
	}
	if len(numbers) > 0 {
		p.log.Warn("slots lost to another relay; what was being sent may arrive twice", "slots", len(numbers))
		p.sweep()
	}
}

// without drops the settlements of one slot.
func without(all store.Settlement, n int16) (kept store.Settlement) {
	for _, r := range all.Sent {
		if r.Slot != n {
			kept.Sent = append(kept.Sent, r)
		}
	}
	for _, w := range all.Wait {
		if w.Row.Slot != n {
			kept.Wait = append(kept.Wait, w)
		}
	}
	for _, r := range all.Back {
		if r.Slot != n {
			kept.Back = append(kept.Back, r)
		}
	}
	return kept
}

// reread closes slots until what waits in them has been read again.
func (p *pump) reread(numbers []int16) {
	for _, n := range numbers {
		if s := p.slots[n]; s != nil {
			s.unread, s.closed = true, true
		}
	}
	if len(numbers) > 0 {
		p.sweep()
	}
}

// giveUp begins to give back as many slots as are above the fair share.
func (p *pump) giveUp(surplus int) {
	for _, s := range p.slots {
		if s != nil && s.leaving {
			surplus--
		}
	}
	for i := len(p.slots) - 1; i >= 0 && surplus > 0; i-- {
		if s := p.slots[i]; s != nil && !s.leaving {
			s.leaving, s.closed = true, true
			surplus--
		}
	}
	p.sweep()
}

// learn takes in what waits in a slot.
func (p *pump) learn(s *slot, backlog []store.Backlog, now time.Time) {
	s.keys, s.wanted, s.unread = map[keyID]*key{}, nil, false
	s.closed = s.leaving
	p.forgetHeld(s.number)
	type one struct {
		d                           *destination
		e                           store.Event
		k                           *key
		first, behind, held, topics int
	}
	var keyed []*one
	byKey := map[*key]*one{}
	for i := range backlog {
		b := &backlog[i]
		d := p.destination(b.Destination)
		if b.Held > 0 {
			p.holding(d, b.Topic, s.number)
		}
		if b.Retrying > 0 {
			p.dueAt = now
		}
		e := store.Event{Destination: b.Destination, Topic: b.Topic, Key: b.Key}
		k := s.block(d, &e)
		if k == nil {
			continue
		}
		o := byKey[k]
		if o == nil {
			o = &one{d: d, e: e, k: k}
			byKey[k], keyed = o, append(keyed, o)
		}
		o.first += b.Retrying + b.Parked
		o.behind += b.Behind
		if b.Held > 0 {
			k.topic = b.Topic
			o.topics++
		}
		o.held += b.Held
	}
	for _, o := range keyed {
		o.k.rows, o.k.held = o.first+o.behind+o.held, o.held
		switch {
		case o.first > 0:
			o.k.mode = keyHeaded
		case o.behind == 0 && o.topics == 1:
			o.k.mode = keyHeld
		default:
			// Its first row was sent and nobody has taken up the next, or it is held: reading
			// them in order shows which.
			o.k.mode = keyServed
			s.serve(o.d, &o.e, o.k)
		}
	}
}
