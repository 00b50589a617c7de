package natssub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// run is one call of Run.
type run struct {
	*Consumer
	source    jetstream.Consumer
	terms     terms
	hand      *hand
	confirmer *confirmer

	// Base has the values of Run's context and never ends. Live ends when the run is to end,
	// handling when running handlers are to roll back.
	base, live, handling context.Context
	stop, cancel         context.CancelFunc

	busy calls
	pace atomic.Int64 // nanoseconds that a message takes, smoothed
	// givenBack counts answers whose arrival at the server a flush has to confirm.
	givenBack atomic.Int64

	mu     sync.Mutex
	cause  error
	faults []error
	// left: Run has gone, and handlers that return now are nobody's.
	left    bool
	answers sync.WaitGroup
	// asking: the server has, or may have, a request of this process. Returns wait for its end.
	asking  bool
	returns []giving
}

func newRun(ctx context.Context, c *Consumer, source jetstream.Consumer, t terms) *run {
	r := &run{
		Consumer: c,
		source:   source,
		terms:    t,
		hand:     newHand(t.hand, c.ordered, c.orderBy != nil),
		base:     context.WithoutCancel(ctx),
	}
	r.live, r.stop = context.WithCancel(r.base)
	r.handling, r.cancel = context.WithCancel(r.base)
	return r
}

// work goes on until the run is to end, and then puts everything back in its place.
func (r *run) work(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { r.end(nil) })()
	defer r.cancel()
	var err error
	if r.confirmer, err = newConfirmer(r.js.Conn(), r.ackLimit); err != nil {
		return err
	}
	defer r.confirmer.close()

	quiet := make(chan struct{})
	var beats, obeying, fetching, lanes sync.WaitGroup
	beats.Go(func() { r.heartbeats(quiet) })
	obeying.Go(r.obey)
	fetching.Go((&intake{run: r, size: r.terms.window, expiry: r.terms.expiry}).loop)
	for range r.lanes {
		lanes.Go(r.lane)
	}

	<-r.live.Done()
	obeying.Wait()
	r.giveBackAll(r.hand.close())
	r.drainLanes(&lanes)
	// One limit for all that the server has to hear and to confirm now. What was answered before, and the end
	// of fetching, have limits of their own that end within it.
	last, cancel := context.WithTimeout(r.base, r.ackLimit)
	defer cancel()
	fetching.Wait()
	r.giveReturns() // of lanes that took something back while the intake was ending

	r.mu.Lock()
	r.left = true
	r.mu.Unlock()
	r.answers.Wait()
	close(quiet)
	beats.Wait()
	r.flush(last)

	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(append([]error{r.cause}, r.faults...)...)
}

// drainLanes waits for the handlers, within the limits.
func (r *run) drainLanes(lanes *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		lanes.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(r.drain):
	}
	n, _ := r.busy.now()
	r.cancel()
	select {
	case <-done:
		if n > 0 {
			r.unclean("%d messages were still being handled after %s and were cancelled", n, r.drain)
		}
	case <-time.After(r.rollbackLimit()):
		n, _ = r.busy.now()
		r.unclean("handlers of %d messages did not return %s after their contexts ended", n, r.rollbackLimit())
	}
}

// flush makes sure that the server has what was given back before the process may exit.
func (r *run) flush(ctx context.Context) {
	n := r.givenBack.Load()
	if n == 0 {
		return
	}
	if err := r.js.Conn().FlushWithContext(ctx); err != nil {
		r.unclean("the server may not know of %d messages that were given back, and delivers them after %s: %w", n, r.terms.ackWait, err)
	}
}

// end asks the run to end; the first cause is the one that Run returns.
func (r *run) end(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping() {
		if cause != nil {
			r.log.Warn("another reason to end", "error", cause)
		}
		return
	}
	r.cause = cause
	r.health.awaits(errEnded)
	r.stop()
}

// gone says that Run has returned, or is about to, without waiting for a handler that is
// still running. What that handler did is found by its mark when the message comes again.
func (r *run) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

func (r *run) stopping() bool { return r.live.Err() != nil }

// wait waits for d, for the end of the run, or until the consumer is paused.
func (r *run) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		shut, changed := r.gate.watch()
		if shut {
			return
		}
		select {
		case <-changed:
			continue
		case <-timer.C:
		case <-r.live.Done():
		}
		return
	}
}

func (r *run) unclean(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Errorf("%w: %w", ErrNotClean, fmt.Errorf(format, args...)))
}

// heartbeats go to every message in hand, whether a handler works on it or it waits, at a
// third of the ack wait: one may be lost without harm.
func (r *run) heartbeats(done <-chan struct{}) {
	tick := time.NewTicker(max(r.terms.ackWait/3, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		// While disconnected they would pile up in the client's buffer and arrive too late.
		if !r.js.Conn().IsConnected() {
			continue
		}
		for _, h := range r.hand.all() {
			if err := h.beat(); err != nil {
				r.log.Warn("heartbeat not sent", "sequence", h.place.sequence, "error", err)
			}
		}
	}
}
