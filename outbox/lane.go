package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// item is a row in the relay's hands.
type item struct {
	row  *store.Row
	slot *slot
	dest *destination
	// key is the record of a waiting row's key; a flowing row has none yet.
	key  *key
	turn uint32
	// alone: it goes in a call of its own, as a probe of its topic or as a suspect, of which a
	// relay may have died.
	alone, probe, suspect bool
}

// lane is a queue of rows whose calls are made one after another, so that a key, which
// never changes its lane, is never in two calls.
type lane struct {
	dest    *destination
	topic   string
	queue   []item
	flight  []item
	running bool
	// touched: it stands in the list of lanes to be looked at; listed: in the destination's
	// queue; over: it holds more than its share.
	touched, listed, over bool
	// alone: it is for one row only.
	alone bool
}

// enqueue puts a row into its lane, behind all others.
func (p *pump) enqueue(it item) {
	if it.key != nil {
		it.turn = it.key.turn
	}
	l := p.laneOf(it.dest, it.row)
	if it.alone {
		l = &lane{dest: it.dest, topic: it.row.Topic, alone: true}
	}
	l.queue = append(l.queue, it)
	p.touch(l)
}

// suspect says whether the lane is for a row that goes alone because a relay may have died of it.
func (l *lane) suspect() bool { return l.alone && len(l.queue) > 0 && l.queue[0].suspect }

func (p *pump) touch(l *lane) {
	if !l.touched {
		l.touched = true
		p.touched = append(p.touched, l)
	}
}

// measure notes whether a lane holds more than its share.
func (p *pump) measure(l *lane, now time.Time) {
	over := len(l.queue) > p.most(l.dest)
	switch {
	case over == l.over:
	case over:
		if p.over++; p.over == 1 {
			p.overSince = now
		}
	default:
		p.over--
	}
	l.over = over
}

// sweep looks at every queue again, after slots were closed.
func (p *pump) sweep() {
	now := time.Now()
	p.eachLane(func(l *lane) {
		kept := l.queue[:0]
		for i := range l.queue {
			if !l.queue[i].slot.closed && !p.stopping || p.passes(&l.queue[i], now) {
				kept = append(kept, l.queue[i])
			}
		}
		clear(l.queue[len(kept):])
		l.queue = kept
		p.measure(l, now)
	})
}

func (p *pump) eachLane(f func(*lane)) {
	for _, d := range p.dests {
		for _, l := range d.lanes {
			f(l)
		}
		for _, l := range d.topics {
			f(l)
		}
	}
}

// setAsideSurplus moves what lanes hold above their share to the held rows, so that a
// destination that is slow, or hangs, does not keep the others from being read. It is
// done only after some patience: one that takes its events at a good pace is waited for.
func (p *pump) setAsideSurplus(now time.Time) {
	if len(p.publishers) == 1 && p.splits == 0 {
		return // there is nobody else
	}
	p.eachLane(func(l *lane) {
		if !l.over {
			return
		}
		// All of the queue and not its end alone: what is left would come before what is held,
		// and find its key blocked by it.
		for i := range l.queue {
			it := &l.queue[i]
			if it.row.State != store.Flowing {
				p.back(it)
				continue
			}
			p.hold(it, "more events than the destination takes at the moment", now)
		}
		clear(l.queue)
		l.queue = l.queue[:0]
		p.measure(l, now)
	})
	p.overSince = now
}
