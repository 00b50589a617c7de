package natssub

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
)

// reopen paces requests for messages that the server does not answer, as while it elects
// a leader.
var reopen = consumers.Policy{MinDelay: 100 * time.Millisecond, MaxDelay: 5 * time.Second}

// intake fetches in windows: it asks for exactly as many messages as the hand has room for,
// and for the next ones only when all of those have arrived. So nothing ever waits in a
// buffer of the client's, where it would get no heartbeat, and what arrives keeps its order.
// The client repairs a window over reconnects and expired requests by itself.
type intake struct {
	*run
	// size bounds a window, expiry is how long the server keeps a request.
	size   int
	expiry time.Duration
	// missed counts how often in a row the durable was not found.
	missed int
}

func (i *intake) loop() {
	for failures := 0; ; {
		n := i.hand.free()
		if n == 0 {
			return
		}
		err := i.fetch(min(n, i.size))
		if i.stopping() {
			return
		}
		if err == nil {
			failures = 0
			i.health.well()
			continue
		}
		failures++
		i.health.unwell(err)
		i.log.Warn("messages cannot be fetched", "error", err)
		if err = final(err); err == nil {
			i.wait(reopen.Delay(failures))
			err = i.look()
		}
		if err != nil {
			i.end(err)
			return
		}
	}
}

// fetch asks for n messages and returns when all of them have arrived, the run ends, or
// something is wrong that the client does not repair.
func (i *intake) fetch(n int) error {
	shut, changed := i.gate.watch()
	if shut || i.stopping() {
		return nil
	}
	i.asks()
	defer i.giveReturns()
	trouble := make(chan error, 1)
	var arrived atomic.Int64
	var again atomic.Bool
	reconnects := i.js.Conn().Stats().Reconnects
	opened := make(chan jetstream.ConsumeContext, 1)
	window, err := i.source.Consume(
		func(msg jetstream.Msg) {
			if arrived.Add(1) == int64(n) && (again.Load() || i.js.Conn().Stats().Reconnects != reconnects) {
				// The client has asked again, and the server may have served the former request as well. By
				// StopAfter what comes beyond n would be thrown away, and come again after the ack wait.
				(<-opened).Drain()
			}
			i.health.well()
			i.arrive(msg)
		},
		jetstream.StopAfter(n),
		jetstream.PullMaxMessages(n),
		jetstream.PullExpiry(i.expiry),
		jetstream.PullHeartbeat(min(pullHeartbeat, i.expiry/2)),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if repaired(err) {
				again.Store(true)
				if errors.Is(err, jetstream.ErrNoHeartbeat) {
					i.health.silent(err)
				}
				i.log.Info("the client asks for messages again", "reason", err)
				return
			}
			select {
			case trouble <- err:
			default: // The first one tells.
			}
		}),
	)
	if err != nil {
		return err
	}
	opened <- window
	closed := window.Closed()
	select {
	case <-closed:
		if arrived.Load() < int64(n) {
			err = errors.New("the client stopped fetching")
		}
	case err = <-trouble:
	case <-changed:
	case <-i.live.Done():
	}
	// Drain takes the request back and then waits for what the server had sent until then, so
	// that nothing is left behind between the two. Stop would throw it away.
	window.Drain()
	select {
	case <-closed:
	case <-time.After(i.ackLimit):
		i.unclean("the end of fetching was not confirmed within %s; what was on its way comes again after %s", i.ackLimit, i.terms.ackWait)
	}
	select {
	case err = <-trouble:
	default:
	}
	return err
}

// repaired are errors upon which the client asks again by itself.
func repaired(err error) bool {
	return errors.Is(err, jetstream.ErrNoHeartbeat) ||
		errors.Is(err, jetstream.ErrConsumerLeadershipChanged) ||
		errors.Is(err, jetstream.ErrServerShutdown)
}

// final returns the error with what it means if no waiting mends it, and nil otherwise.
func final(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrConsumerDeleted):
		return fmt.Errorf("the durable or its stream was deleted while in use: %w", err)
	case errors.Is(err, jetstream.ErrBadRequest):
		return fmt.Errorf("the server does not understand how it is asked for messages: %w", err)
	case errors.Is(err, jetstream.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("the connection was closed for good while in use: %w", err)
	}
	return nil
}

// look asks whether the durable is still there, and returns an error when it makes no sense
// to go on. That it is gone must be said twice: a server that has just started may not know
// it yet.
func (i *intake) look() error {
	ctx, cancel := context.WithTimeout(i.live, i.ackLimit)
	defer cancel()
	info, err := i.source.Info(ctx)
	switch {
	case err == nil:
		i.missed = 0
		i.health.well()
		// Somebody may have changed what a request may ask for.
		t, _, err := i.Consumer.terms(info.Config)
		if err != nil {
			return fmt.Errorf("the durable's settings have changed: %w", err)
		}
		i.size, i.expiry = t.window, t.expiry
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		if i.missed++; i.missed > 1 {
			return fmt.Errorf("the durable or its stream was deleted: %w", err)
		}
	default:
		return final(err)
	}
	return nil
}

// arrive takes a message in hand. It is called on the client's goroutine and does not block.
func (r *run) arrive(msg jetstream.Msg) {
	h, err := hold(msg)
	if err != nil {
		r.end(err)
		return
	}
	r.memory.recall(h)
	if h.key, err = r.keyOf(h.message); err != nil {
		r.end(err)
		r.giveBack(h, 0)
		return
	}
	switch r.hand.add(h) {
	case copied:
		r.log.Debug("a copy of a message in hand was dropped", "sequence", h.place.sequence, "deliveries", h.deliveries)
	case late:
		r.giveBack(h, 0)
	}
}
