package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// What becomes of a row is decided here and stored with the next round trip. The records of
// keys are changed at once: the settlement is repeated until the store has it, or the
// slot is lost and the records with it.

// sent: the destination has confirmed the row.
func (p *pump) sent(it *item) {
	p.done.Sent = append(p.done.Sent, it.row)
	k := it.key
	if k == nil || it.row.State == store.Flowing {
		return
	}
	k.rows--
	k.hand--
	if it.row.State == store.Held {
		k.held--
	}
	if k.mode == keyHeaded {
		k.mode = keyServed
	}
	if k.first == it.row.Seq {
		k.first = 0
	}
	it.slot.review(it.dest, &it.row.Event, k)
}

// back: nothing was tried. The row is given out again in its turn.
func (p *pump) back(it *item) {
	p.done.Back = append(p.done.Back, it.row)
	if it.row.State == store.Held {
		p.holding(it.dest, it.row.Topic, it.slot.number)
	}
	if it.key != nil && it.row.State != store.Flowing {
		it.key.hand--
		it.slot.review(it.dest, &it.row.Event, it.key)
	}
	if it.row.State == store.Flowing {
		p.more = true
	}
	if it.row.State == store.Retrying {
		p.dueAt = time.Time{}
	}
}

// wait stores that the row waits. Mode is what its key's first row is then.
func (p *pump) wait(it *item, w store.Wait, mode keyMode) {
	w.Row = it.row
	k := it.key
	if k == nil {
		k = it.slot.block(it.dest, &it.row.Event)
		it.key = k
	}
	if k != nil {
		p.recount(it, k, &w)
		if mode != 0 {
			k.mode = mode
		}
		if mode == keyHeld {
			k.topic, k.first = it.row.Topic, it.row.Seq
		}
		it.slot.review(it.dest, &it.row.Event, k)
	}
	if w.State == store.Held && !w.Keep {
		p.holding(it.dest, it.row.Topic, it.slot.number)
	}
	if w.State == store.Retrying && !w.Keep {
		// The store's clock decides, and starts a little later.
		if at := time.Now().Add(w.After + 20*time.Millisecond); p.dueAt.After(at) {
			p.dueAt = at
		}
	}
	p.done.Wait = append(p.done.Wait, w)
}

func (p *pump) recount(it *item, k *key, w *store.Wait) {
	if it.row.State == store.Flowing {
		k.rows++
		if w.Keep {
			k.hand++
		}
	} else if !w.Keep {
		k.hand--
	}
	if it.row.State == store.Held {
		k.held--
	}
	if w.State == store.Held {
		k.held++
	}
}

// behind: an earlier row of its key waits. Where all of them are held for the topic of this
// one, it is held with them, and they go together.
func (p *pump) behind(it *item, k *key) {
	it.key = k
	w := store.Wait{State: store.Behind, Attempts: it.row.Attempts, Starts: it.row.Starts, Reason: "an earlier event of its key waits"}
	if k.mode == keyHeld && k.topic == it.row.Topic && k.held == k.rows {
		w.State = store.Held
	}
	p.wait(it, w, 0)
}

// hold: its topic cannot be reached, or has no room.
func (p *pump) hold(it *item, reason string, now time.Time) {
	if id := (routeID{it.row.Destination, it.row.Topic}); p.routes[id] == nil {
		p.routes[id] = &route{id: id, dest: it.dest}
	}
	if it.key == nil {
		if k := it.slot.blocked(it.dest, &it.row.Event); k != nil {
			p.behind(it, k)
			return
		}
	}
	p.wait(it, store.Wait{State: store.Held, Attempts: it.row.Attempts, Reason: reason}, keyHeld)
}

// begin stores that the row is about to be sent, before it is.
func (p *pump) begin(it item) {
	w := store.Wait{State: it.row.State, Attempts: it.row.Attempts, Starts: it.row.Starts + 1, Keep: true, Reason: "being sent"}
	mode := keyMode(0)
	if w.State == store.Flowing {
		w.State, mode = store.Retrying, keyHeaded
	}
	p.wait(&it, w, mode)
	if it.key != nil {
		it.key.starting++
	}
	p.starting = append(p.starting, it)
}

// beginAlone does the same for a row that a relay may have died of: one at a time, so that the
// next death has one cause.
func (p *pump) beginAlone(it item) {
	if it.row.Starts >= maxStarts {
		p.park(&it, it.row.Attempts, "relays ended while they were sending it, and none after them is to")
		p.aloneOver(&it)
		return
	}
	it.alone, it.suspect = true, true
	p.suspects = append(p.suspects, it)
	p.nextSuspect()
}

// nextSuspect begins the next suspect when the one before it has passed; one that has to go
// in solitude only when no call is under way, and from then on no other is begun.
func (p *pump) nextSuspect() {
	if p.suspected != nil {
		return
	}
	p.solitude = false
	for len(p.suspects) > 0 && p.suspected == nil {
		it := p.suspects[0]
		if it.row.Starts >= solitaryStarts && !it.slot.closed && !p.stopping {
			if p.solitude = true; p.running > 0 {
				return
			}
		}
		p.suspects = p.suspects[1:]
		if it.slot.lost || it.slot.closed || p.stopping {
			p.giveBack(&it)
			continue
		}
		p.suspected = it.slot
		p.begin(it)
	}
}

// giveBack is back for a row that had a call of its own before it.
func (p *pump) giveBack(it *item) {
	if !it.slot.lost {
		p.back(it)
	}
	p.aloneOver(it)
}

// aloneOver is called when a row that goes alone has come back, or will not go.
func (p *pump) aloneOver(it *item) {
	if it.probe && !it.slot.lost {
		if r := p.routeOf(&it.row.Event); r != nil && r.probing == it.slot {
			r.probing = nil
			p.tidy(r)
		}
	}
	if it.suspect && p.suspected == it.slot {
		p.suspected = nil
		p.nextSuspect()
	}
}

func (p *pump) park(it *item, attempts int, reason string) {
	p.log.Warn("event parked", "id", it.row.ID.String(), "destination", it.row.Destination, "topic", it.row.Topic,
		"type", it.row.Type, "attempts", attempts, "reason", reason)
	p.wait(it, store.Wait{State: store.Parked, Attempts: attempts, Starts: it.row.Starts, Reason: reason}, keyHeaded)
	if it.key != nil {
		it.key.turn++
	}
}
