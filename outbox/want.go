package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// patience is how long full lanes keep the relay from reading on before their surplus is set
// aside.
const patience = 250 * time.Millisecond

// want fills in what there is room for.
func (p *pump) want(a *ask, now time.Time) {
	poll := !now.Before(p.pollAt)
	if p.over > 0 && now.Sub(p.overSince) > patience {
		p.setAsideSurplus(now)
	}
	suspects := false
	for _, s := range p.slots {
		if s == nil || s.closed {
			continue
		}
		a.want.Slots = append(a.want.Slots, s.number)
		suspects = suspects || s.suspect > 0
		p.wantKeys(a, s)
	}
	if len(a.want.Slots) == 0 || p.over > 0 {
		return
	}
	// Two calls' worth: one goes out while the other is made ready.
	limit := 2 * p.limit
	if suspects {
		limit = min(limit, suspectStep) - p.inHand()
	}
	if (p.more || poll) && limit > 0 {
		a.want.Flow = limit
		p.more, p.pollAt = false, now.Add(p.poll)
	}
	if !now.Before(p.dueAt) && limit > 0 {
		a.want.Due = min(limit, 200)
		p.dueAt = now.Add(p.poll)
	}
	p.wantHeld(a, now)
}

// wantKeys asks for the next rows of served keys, a few keys at a time.
func (p *pump) wantKeys(a *ask, s *slot) {
	const most, each = 32, 100
	for len(s.wanted) > 0 && len(a.want.Keys) < most {
		w := s.wanted[0]
		s.wanted = s.wanted[1:]
		w.key.listed = false
		if w.key.mode != keyServed || w.key.hand > 0 || w.key.rows == 0 {
			continue
		}
		a.want.Keys = append(a.want.Keys, store.WantKey{Slot: s.number, Destination: w.destination, Topic: w.topic, Key: w.bytes, Most: each})
		a.keys = append(a.keys, askedKey{w.key, s})
	}
}

func (p *pump) inHand() (n int) {
	for _, s := range p.slots {
		if s != nil {
			n += s.open
		}
	}
	return n
}

// measureRows keeps a read within a size in memory, whatever the size of the events.
func (p *pump) measureRows(rows []*store.Row) {
	const most = 32 << 20
	if len(rows) == 0 {
		return
	}
	size := 0
	for _, r := range rows {
		size += len(r.Payload)
	}
	p.limit = min(p.batch, max(1, most/max(size/len(rows), 1)))
}
