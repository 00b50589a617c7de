package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/semel-dev/semel/store"
)

// pump is one run of a relay. All of its state belongs to the goroutine in run; publishers
// and the store are called in goroutines of their own, and what they return comes back
// through channels. One call to the store is under way at a time, so that the next read,
// with the settlement of the one before it, travels while publishers are at work.
type pump struct {
	*Relay
	member store.Member
	log    *slog.Logger

	// detached carries the values of Run's context but not its end, for settling.
	detached context.Context
	// publishing is the context of Publish calls.
	publishing     context.Context
	stopPublishing context.CancelFunc

	dests  map[string]*destination
	splits int // how many of them are split by topic
	slots  [store.Slots]*slot
	routes map[routeID]*route
	turn   int

	// done is what is to be settled, and starting the rows that go when it is.
	done     store.Settlement
	starting []item
	// suspects wait to go one at a time; suspected is the slot of the one that does. In
	// solitude no other call is begun.
	suspects  []item
	suspected *slot
	solitude  bool

	// touched are lanes to be looked at; spare is the memory of the list before.
	touched, spare []*lane
	running        int
	over           int
	overSince      time.Time

	results  chan result
	finished chan func()
	busy     bool

	// until is how long the slots are safely held.
	until time.Time
	// more says that the flow may have more rows now.
	more                          bool
	holdAt, pollAt, dueAt, failAt time.Time
	fails                         int
	limit                         int
	lastErr, fatal                error
	started, stopping             bool
	stopAt                        time.Time
}

func newPump(r *Relay, m store.Member, log *slog.Logger) *pump {
	p := &pump{
		Relay: r, member: m, log: log,
		dests: map[string]*destination{}, routes: map[routeID]*route{},
		results: make(chan result, 16), finished: make(chan func(), 1),
		limit: r.batch,
	}
	for name, pub := range r.publishers {
		d := newDestination(name, pub, &r.relayConfig)
		p.dests[name] = d
		if d.split {
			p.splits++
		}
	}
	return p
}

func (p *pump) run(ctx context.Context) error {
	p.detached = context.WithoutCancel(ctx)
	p.publishing, p.stopPublishing = context.WithCancel(p.detached)
	defer p.stopPublishing()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	ended := ctx.Done()
	for {
		now := time.Now()
		p.startCalls(now)
		if !p.busy {
			p.act(now)
		}
		if p.fatal != nil {
			return p.fatal
		}
		if p.stopping && p.ended(now) {
			return p.leave()
		}
		timer.Reset(time.Until(p.nextTime(now)))
		select {
		case <-ended:
			ended = nil
			p.stop(time.Now())
		case apply := <-p.finished:
			p.busy = false
			apply()
		case res := <-p.results:
			p.result(res, time.Now())
		case <-p.wake:
			p.more = true
		case <-timer.C:
		}
		p.collect()
	}
}

// collect takes in the results that are there already, so that they are settled together.
func (p *pump) collect() {
	for {
		select {
		case res := <-p.results:
			p.result(res, time.Now())
		default:
			return
		}
	}
}

// do makes a call to the store in a goroutine; apply is run when it has returned.
func (p *pump) do(limit time.Duration, call func(context.Context) (apply func())) {
	p.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(p.detached, limit)
		defer cancel()
		p.finished <- call(ctx)
	}()
}

// storeLimit is the deadline of one round trip to the store.
func (p *pump) storeLimit() time.Duration { return max(p.lease/3, time.Second) }

// act makes the call to the store that is most in need.
func (p *pump) act(now time.Time) {
	if now.Before(p.failAt) {
		return
	}
	switch {
	case !now.Before(p.holdAt) && !p.stopping:
		p.keep()
	case p.readBacklog():
	case p.release():
	default:
		p.next(now)
	}
}

// failed notes that the store could not be reached, and when to try again.
func (p *pump) failed(what string, err error) {
	if !p.started && p.queue.Fault(err) == store.FaultSetup {
		p.fatal = err
		return
	}
	p.fails++
	p.lastErr = err
	pause := Retry{MinDelay: 50 * time.Millisecond, MaxDelay: 5 * time.Second}.delay(p.fails, 0)
	p.failAt = time.Now().Add(pause)
	p.log.Error("the store cannot be used", "act", what, "error", err, "again_in", pause)
}

func (p *pump) worked() {
	p.fails, p.failAt, p.lastErr, p.started = 0, time.Time{}, nil, true
}

// nextTime is when something is to be done that nothing else brings about.
func (p *pump) nextTime(now time.Time) time.Time {
	at := now.Add(time.Minute)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if p.stopping {
		sooner(p.stopAt)
	}
	if p.busy {
		return at
	}
	if now.Before(p.failAt) {
		sooner(p.failAt)
		return at
	}
	if !p.stopping {
		sooner(p.holdAt)
		sooner(p.pollAt)
		sooner(p.dueAt)
		if probe := p.nextProbe(); !probe.IsZero() {
			sooner(probe)
		}
		if p.over > 0 {
			sooner(p.overSince.Add(patience))
		}
	}
	// What is in the past could not be done for want of room: a result will come.
	if at.Before(now) {
		at = now.Add(10 * time.Millisecond)
	}
	return at
}
