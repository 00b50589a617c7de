package outbox

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/semel-dev/semel/store"
)

// destination is a publisher with its lanes.
type destination struct {
	name string
	// publisher is nil for a name that this relay does not know. Its events are held.
	publisher Publisher
	split     bool
	retry     Retry
	// lanes are fixed and divide the slots among them; of a destination that is split there is
	// one per topic instead, as long as it has rows.
	lanes  []*lane
	topics map[string]*lane
	// running counts its calls, queued are lanes that wait for one to end.
	running int
	queued  []*lane
}

// splitCall is the most events in a call of a destination that is split: one topic's events
// are taken in small steps, so that a slow one is noticed early.
const splitCall = 64

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

func (p *pump) destination(name string) *destination {
	d := p.dests[name]
	if d == nil {
		p.log.Warn("no publisher for a destination: its events wait for a relay that has one", "destination", name)
		d = &destination{name: name}
		p.dests[name] = d
	}
	return d
}

func newDestination(name string, pub Publisher, c *relayConfig) *destination {
	d := &destination{name: name, publisher: pub, retry: c.retry}
	if r, ok := c.retries[name]; ok {
		d.retry = r
	}
	calls := c.calls
	if _, d.split = pub.(Splitter); d.split {
		d.topics = map[string]*lane{}
		return d
	}
	if calls == 0 {
		calls = 4
	}
	for range calls {
		d.lanes = append(d.lanes, &lane{dest: d})
	}
	return d
}

// mostCalls is how many calls a destination may have at the same time.
func (p *pump) mostCalls(d *destination) int {
	switch {
	case !d.split:
		return len(d.lanes)
	case p.calls > 0:
		return p.calls
	default:
		return 64
	}
}

func (p *pump) laneOf(d *destination, row *store.Row) *lane {
	if !d.split {
		return d.lanes[int(row.Slot)%len(d.lanes)]
	}
	l := d.topics[row.Topic]
	if l == nil {
		l = &lane{dest: d, topic: row.Topic}
		d.topics[row.Topic] = l
	}
	return l
}

// most is how many rows a lane holds before it is full: a call's worth under way and
// another one ready.
func (p *pump) most(d *destination) int {
	if d.split {
		return 2 * splitCall
	}
	return 2 * p.batch
}

// room is how many more rows of a topic the relay has room for.
func (p *pump) room(r *route) (n int) {
	if r.dest.split {
		if l := r.dest.topics[r.id.topic]; l != nil {
			return p.most(r.dest) - len(l.queue)
		}
		return p.most(r.dest)
	}
	n = p.most(r.dest)
	for _, l := range r.dest.lanes {
		n = min(n, p.most(r.dest)-len(l.queue))
	}
	return n
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

// startCalls begins a call for each lane that was touched and can have one.
func (p *pump) startCalls(now time.Time) {
	if now.After(p.until) {
		// The slots may be somebody else's by now. What is queued waits for the next Hold.
		return
	}
	touched := p.touched
	p.touched = p.spare[:0]
	for i, l := range touched {
		l.touched, touched[i] = false, nil
		p.start(l, now)
	}
	p.spare = touched
}

func (p *pump) start(l *lane, now time.Time) {
	if l.running || l.listed {
		p.measure(l, now)
		return
	}
	if !l.alone && l.dest.running >= p.mostCalls(l.dest) && len(l.queue) > 0 {
		l.listed = true
		l.dest.queued = append(l.dest.queued, l)
		p.measure(l, now)
		return
	}
	p.take(l, now)
	p.measure(l, now)
	if len(l.flight) == 0 {
		if l.dest.split && len(l.queue) == 0 && l.dest.topics[l.topic] == l {
			delete(l.dest.topics, l.topic)
		}
		return
	}
	events := make([]store.Event, len(l.flight))
	for i := range l.flight {
		events[i] = l.flight[i].row.Event
	}
	l.running = true
	p.running++
	if !l.alone {
		l.dest.running++
	}
	go p.call(l, events)
}

// take moves rows that may be sent from the queue into flight. Whether a row may is decided
// here and nowhere earlier, in the order of the queue: then every earlier row of its key has
// either been decided or is in flight.
func (p *pump) take(l *lane, now time.Time) {
	most := p.batch
	if l.dest.split {
		most = min(most, splitCall)
	}
	var waits []item
	n := 0
	for n < len(l.queue) && len(l.flight) < most {
		it := &l.queue[n]
		n++
		switch {
		case p.mustWait(l, it, waits):
			waits = append(waits, *it)
		case p.passes(it, now):
			l.flight = append(l.flight, *it)
		default:
			p.aloneOver(it)
		}
	}
	// What must wait stays in front. There is room for it: it was taken from there.
	kept := copy(l.queue, waits)
	kept += copy(l.queue[kept:], l.queue[n:])
	clear(l.queue[kept:])
	l.queue = l.queue[:kept]
}

// mustWait says whether a row whose topic is down is to be left until the call that is being
// made has ended, because an earlier row of its key is in it. Held now, it might be tried
// before that one has come to its end.
func (p *pump) mustWait(l *lane, it *item, waits []item) bool {
	if len(p.routes) == 0 || it.row.Key == nil || it.alone {
		return false
	}
	if hasKey(waits, it) {
		return true
	}
	r := p.routeOf(&it.row.Event)
	return r != nil && r.down && hasKey(l.flight, it)
}

// hasKey says whether a row of the same key is among the items, which are of one lane.
func hasKey(items []item, it *item) bool {
	for i := range items {
		if items[i].slot == it.slot && bytes.Equal(items[i].row.Key, it.row.Key) {
			return true
		}
	}
	return false
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

// result is what a call returned.
type result struct {
	lane *lane
	errs []error
	// broken says that the publisher broke its contract: it panicked, or did not answer for
	// each event. Nothing is known of any of them then.
	broken error
}

// call runs in a goroutine of its own and always sends a result.
func (p *pump) call(l *lane, events []store.Event) {
	ctx, cancel := context.WithTimeout(p.publishing, p.publishTimeout)
	defer cancel()
	res := result{lane: l}
	defer func() {
		if v := recover(); v != nil {
			res.broken = fmt.Errorf("publisher %s panicked: %v", l.dest.name, v)
			p.log.Error("publisher panicked", "destination", l.dest.name, "panic", v, "stack", string(debug.Stack()))
		}
		p.results <- res
	}()
	res.errs = l.dest.publisher.Publish(ctx, events)
	if res.errs != nil && len(res.errs) != len(events) {
		res.broken = fmt.Errorf("publisher %s returned %d results for %d events", l.dest.name, len(res.errs), len(events))
	}
}
