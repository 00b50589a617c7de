package outbox

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/semel-dev/semel/store"
)

// startCalls begins a call for each lane that was touched and can have one.
func (p *pump) startCalls(now time.Time) {
	if now.After(p.until) {
		// The slots may be somebody else's by now. What is queued waits for the next Hold.
		return
	}
	p.nextSuspect()
	touched := p.touched
	p.touched = p.spare[:0]
	for i, l := range touched {
		l.touched, touched[i] = false, nil
		if p.solitude && !l.suspect() {
			p.touch(l) // when the suspect has passed
			continue
		}
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

// result is what a call returned.
type result struct {
	lane *lane
	errs []error
	// broken says that the publisher broke its contract: it panicked, ended its goroutine, or did
	// not answer for each event. Nothing is known of any of them then.
	broken error
}

// call runs in a goroutine of its own and always sends a result.
func (p *pump) call(l *lane, events []store.Event) {
	ctx, cancel := context.WithTimeout(p.publishing, p.publishTimeout)
	defer cancel()
	res := result{lane: l, broken: fmt.Errorf("publisher %s ended its goroutine, as runtime.Goexit and testing's FailNow do", l.dest.name)}
	defer func() {
		if v := recover(); v != nil {
			res.broken = fmt.Errorf("publisher %s panicked: %v", l.dest.name, v)
			p.log.Error("publisher panicked", "destination", l.dest.name, "panic", v, "stack", string(debug.Stack()))
		}
		p.results <- res
	}()
	res.errs = l.dest.publisher.Publish(ctx, events)
	res.broken = nil
	if res.errs != nil && len(res.errs) != len(events) {
		res.broken = fmt.Errorf("publisher %s returned %d results for %d events", l.dest.name, len(res.errs), len(events))
	}
}
