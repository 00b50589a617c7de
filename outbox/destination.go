package outbox

import (
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
