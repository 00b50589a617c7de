package outbox

import (
	"context"
	"errors"
	"fmt"
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
	// suspects wait to go one at a time; suspected is the slot of the one that does.
	suspects  []item
	suspected *slot

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

// patience is how long full lanes keep the relay from reading on before their surplus is set
// aside.
const patience = 250 * time.Millisecond

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

// keep prolongs the slots and takes in which ones they are.
func (p *pump) keep() {
	p.do(p.storeLimit(), func(ctx context.Context) func() {
		h, err := p.member.Hold(ctx)
		return func() {
			if err != nil {
				p.failed("hold", err)
				return
			}
			p.worked()
			now := time.Now()
			p.until, p.holdAt = h.Until, now.Add(min(p.lease/5, time.Second))
			p.lose(h.Lost)
			p.gain(h.Gained, now)
			p.reread(h.Changed)
			p.giveUp(h.Surplus)
		}
	})
}

// readBacklog learns what waits in a slot whose rows have all come to an end.
func (p *pump) readBacklog() bool {
	for _, s := range p.slots {
		if s == nil || !s.unread || s.leaving || s.open > 0 || p.stopping {
			continue
		}
		p.do(max(p.storeLimit(), 30*time.Second), func(ctx context.Context) func() {
			backlog, err := p.member.Backlog(ctx, s.number)
			return func() {
				if err != nil {
					p.failed("backlog", err)
					return
				}
				p.worked()
				if !s.lost {
					p.learn(s, backlog, time.Now())
					p.more = true
				}
			}
		})
		return true
	}
	return false
}

// release gives back slots of which nothing is in hand.
func (p *pump) release() bool {
	var numbers []int16
	for _, s := range p.slots {
		if s != nil && s.leaving && s.open == 0 {
			numbers = append(numbers, s.number)
		}
	}
	if len(numbers) == 0 {
		return false
	}
	p.do(p.storeLimit(), func(ctx context.Context) func() {
		err := p.member.Release(ctx, numbers...)
		return func() {
			if err != nil {
				p.failed("release", err)
				return
			}
			p.worked()
			for _, n := range numbers {
				if s := p.slots[n]; s != nil {
					s.lost = true
					p.slots[n] = nil
					p.forgetHeld(n)
				}
			}
			p.log.Info("slots released", "slots", len(numbers))
		}
	})
	return true
}

// ask is a settlement with a question, under way.
type ask struct {
	done     store.Settlement
	starting []item
	want     store.Want
	keys     []askedKey
	// probes are the topics that are down and of which one row is wanted, to try them.
	probes map[*route]bool
}

type askedKey struct {
	key  *key
	slot *slot
}

// next settles and reads, where there is anything to settle or room to read.
func (p *pump) next(now time.Time) {
	a := &ask{done: p.done, starting: p.starting, probes: map[*route]bool{}}
	if !p.stopping {
		p.want(a, now)
	}
	if a.done.Empty() && a.want.Flow+a.want.Due+len(a.want.Held)+len(a.want.Keys) == 0 {
		return
	}
	p.done, p.starting = store.Settlement{}, nil
	p.do(p.storeLimit(), func(ctx context.Context) func() {
		b, err := p.member.Next(ctx, a.done, a.want)
		return func() {
			if err != nil {
				p.unsettled(a)
				p.failed("next", err)
				return
			}
			p.worked()
			p.settled(a, &b)
			p.readAhead(&b)
			p.admit(&b, a, time.Now())
			p.measureRows(b.Flow)
		}
	})
}

// readAhead asks for more before what came is looked at, so that the store and the relay work
// at the same time. It does so only while nothing waits anywhere: then no decision about
// what came can bear on the question.
func (p *pump) readAhead(b *store.Batch) {
	now := time.Now()
	if !b.More || p.stopping || p.over > 0 || len(p.routes) > 0 || !now.Before(p.holdAt) {
		return
	}
	for _, s := range p.slots {
		if s != nil && (s.closed || s.suspect > 0 || len(s.keys) > 0) {
			return
		}
	}
	p.collect()
	if len(p.done.Wait) > 0 {
		return
	}
	p.more = true
	p.next(now)
}

// unsettled keeps a settlement that the store did not answer to.
func (p *pump) unsettled(a *ask) {
	p.done = store.Settlement{
		Sent: append(a.done.Sent, p.done.Sent...),
		Wait: append(a.done.Wait, p.done.Wait...),
		Back: append(a.done.Back, p.done.Back...),
	}
	p.starting = append(a.starting, p.starting...)
	for _, k := range a.keys {
		if !k.slot.lost && k.key.mode == keyServed && k.key.hand == 0 {
			p.reread([]int16{k.slot.number})
		}
	}
	p.more = true
	p.dueAt = time.Time{}
}

// settled takes rows out of the relay's hands after the store has agreed.
func (p *pump) settled(a *ask, b *store.Batch) {
	p.lose(b.Lost)
	shut := func(r *store.Row) {
		if s := p.slots[r.Slot]; s != nil {
			s.open--
		}
	}
	for _, r := range a.done.Sent {
		shut(r)
	}
	for _, r := range a.done.Back {
		shut(r)
	}
	for i := range a.done.Wait {
		if w := &a.done.Wait[i]; !w.Keep {
			shut(w.Row)
		}
	}
	for _, it := range a.starting {
		if it.slot.lost {
			p.aloneOver(&it)
			continue
		}
		p.enqueue(it)
	}
}

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
	limit := p.limit
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

// stop begins the end: nothing new is begun, what is queued goes back.
func (p *pump) stop(now time.Time) {
	p.stopping, p.stopAt = true, now.Add(p.drain)
	p.sweep()
	p.nextSuspect()
	for _, s := range p.slots {
		if s != nil {
			s.leaving, s.closed = true, true
		}
	}
	p.log.Info("relay stops", "calls", p.running)
}

// grace is how long publishers that were cancelled may take to return.
const grace = 5 * time.Second

// ended says whether the end has been reached, and cancels calls that take too long.
func (p *pump) ended(now time.Time) bool {
	if p.busy {
		return false
	}
	held := false
	for _, s := range p.slots {
		held = held || s != nil
	}
	if !held && p.running == 0 {
		return true
	}
	if now.Before(p.stopAt) {
		return false
	}
	if p.publishing.Err() == nil {
		p.stopPublishing()
		p.stopAt = now.Add(grace)
		return false
	}
	return true
}

// leave takes the relay off the list of the living and says what was not clean.
func (p *pump) leave() error {
	ctx, cancel := context.WithTimeout(p.detached, p.storeLimit())
	defer cancel()
	var errs []error
	if p.running > 0 {
		errs = append(errs, fmt.Errorf("%d Publish calls did not return within %s after their context had ended", p.running, grace))
	}
	held := 0
	for _, s := range p.slots {
		if s != nil {
			held++
		}
	}
	if held > 0 {
		errs = append(errs, fmt.Errorf("%d slots with %d events in hand were not released; another relay takes them when the lease of %s has passed", held, p.inHand(), p.lease))
	}
	if p.lastErr != nil {
		errs = append(errs, p.lastErr)
	}
	if err := p.member.Leave(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
