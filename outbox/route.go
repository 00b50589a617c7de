package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// routeID names a topic of a destination.
type routeID struct{ destination, topic string }

// route is a topic with trouble: it cannot be reached, or rows of it are held. Topics that
// are well have none.
type route struct {
	id   routeID
	dest *destination
	// down: it could not be reached. Of its rows one is tried at a time.
	down    bool
	fails   int
	probeAt time.Time
	// probing is the slot of the row that is being tried, nil for none.
	probing *slot
	// held are the slots that may have held rows.
	held [store.Slots]bool
}

// holding notes that rows of a topic are held in a slot. A topic that is not known to be
// well counts as down until a probe has passed: whoever held the rows had a reason.
func (p *pump) holding(d *destination, topic string, n int16) *route {
	id := routeID{d.name, topic}
	r := p.routes[id]
	if r == nil {
		r = &route{id: id, dest: d, down: true}
		p.routes[id] = r
	}
	r.held[n] = true
	return r
}

// routeOf returns the topic's record, nil while it is well.
func (p *pump) routeOf(e *store.Event) *route {
	if len(p.routes) == 0 {
		return nil
	}
	return p.routes[routeID{e.Destination, e.Topic}]
}

// unreached notes that a topic could not be reached.
func (p *pump) unreached(it *item, err error, now time.Time) *route {
	id := routeID{it.row.Destination, it.row.Topic}
	r := p.routes[id]
	if r == nil {
		r = &route{id: id, dest: it.dest}
		p.routes[id] = r
	}
	asked, _ := RetryDelay(err)
	if !r.down || it.probe {
		// The rows of one call fail together: they are one failure.
		r.fails++
		r.probeAt = now.Add(p.probe.delay(r.fails, asked))
	} else if at := now.Add(asked); at.After(r.probeAt) {
		r.probeAt = at
	}
	if !r.down {
		r.down = true
		p.log.Warn("topic cannot be reached", "destination", id.destination, "topic", id.topic, "error", err)
	}
	return r
}

// reached notes that a topic has answered, be it with a refusal.
func (p *pump) reached(r *route) {
	if r == nil || !r.down {
		return
	}
	r.down, r.fails = false, 0
	p.log.Info("topic can be reached again", "destination", r.id.destination, "topic", r.id.topic)
	p.tidy(r)
}

// tidy drops the record of a topic that is well.
func (p *pump) tidy(r *route) {
	if r.down || r.probing != nil {
		return
	}
	for _, held := range r.held {
		if held {
			return
		}
	}
	delete(p.routes, r.id)
}

// empty notes that a slot has no held rows of a topic. A topic that is down and of which
// nothing is held any more has nothing to be tried with: the next event tries it.
func (p *pump) empty(r *route, n int16) {
	r.held[n] = false
	for _, held := range r.held {
		if held {
			return
		}
	}
	if r.probing == nil {
		delete(p.routes, r.id)
	}
}

// forgetHeld drops a slot from all topics.
func (p *pump) forgetHeld(n int16) {
	for _, r := range p.routes {
		if r.probing != nil && r.probing.number == n {
			r.probing = nil
		}
		if r.held[n] {
			p.empty(r, n)
		}
	}
}

// wantHeld asks for held rows: one of a topic that is down and due for a try, and as many as
// there is room for of those that are well.
func (p *pump) wantHeld(a *ask, now time.Time) {
	want := &a.want
	room := p.batch
	for _, r := range p.routes {
		if room <= 0 {
			return
		}
		if r.dest.publisher == nil || r.probing != nil || r.down && now.Before(r.probeAt) {
			continue
		}
		slots := p.heldSlots(r)
		if len(slots) == 0 {
			continue
		}
		if r.down {
			a.probes[r] = true
			want.Held = append(want.Held, store.WantHeld{Destination: r.id.destination, Topic: r.id.topic, Slots: slots[:1], Each: 1})
			room--
			continue
		}
		most := min(room, p.room(r))
		if most <= 0 {
			continue
		}
		// Where there is less room than there are slots the next turn takes the others.
		slots = slots[:min(len(slots), most)]
		each := most / len(slots)
		want.Held = append(want.Held, store.WantHeld{Destination: r.id.destination, Topic: r.id.topic, Slots: slots, Each: each})
		room -= each * len(slots)
	}
}

// heldSlots are the open slots that may have held rows, beginning anywhere, so that none is
// always the last.
func (p *pump) heldSlots(r *route) (slots []int16) {
	p.turn++
	for i := range r.held {
		n := (i + p.turn) % store.Slots
		if s := p.slots[n]; r.held[n] && s != nil && !s.closed {
			slots = append(slots, int16(n))
		}
	}
	return slots
}

// nextProbe is when the next topic is due for a try.
func (p *pump) nextProbe() (at time.Time) {
	for _, r := range p.routes {
		if r.down && r.probing == nil && r.dest.publisher != nil && (at.IsZero() || r.probeAt.Before(at)) {
			at = r.probeAt
		}
	}
	return at
}
