package natspub

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// publication is one call of Publish. It goes out in waves: all events without a key and
// the first of each key, then the second of each key, and so on.
type publication struct {
	p      *Publisher
	events []store.Event
	errs   []error

	failed  map[string]bool // Keys of which an event was not confirmed.
	down    bool            // The connection, not an event, was at fault: begin nothing more.
	waiting []int           // Events of later waves.
	wave    []int
	futures []jetstream.PubAckFuture // Of the wave; nil where nothing is under way.
}

func newPublication(p *Publisher, events []store.Event) *publication {
	pub := &publication{p: p, events: events, errs: make([]error, len(events)), failed: make(map[string]bool)}
	pub.waiting = make([]int, len(events))
	for i := range pub.waiting {
		pub.waiting[i] = i
	}
	return pub
}

// next prepares a wave and reports whether there is one.
func (pub *publication) next() bool {
	pub.wave = pub.wave[:0]
	var later []int
	inWave := make(map[string]bool)
	for _, i := range pub.waiting {
		e := pub.events[i]
		key, keyed := string(e.Key), e.Key != nil
		switch {
		case keyed && pub.failed[key]:
			pub.fail(i, outbox.ErrNotSent)
		case keyed && inWave[key]:
			later = append(later, i)
		default:
			if keyed {
				inWave[key] = true
			}
			pub.wave = append(pub.wave, i)
		}
	}
	pub.waiting = later
	return len(pub.wave) > 0
}

// send hands the wave to the connection, as far as the window and ctx allow.
func (pub *publication) send(ctx context.Context) {
	pub.futures = make([]jetstream.PubAckFuture, len(pub.wave))
	for n, i := range pub.wave {
		e := pub.events[i]
		if err := pub.p.Validate(e); err != nil {
			pub.fail(i, err)
			continue
		}
		if ctx.Err() != nil || pub.down {
			pub.fail(i, outbox.ErrNotSent)
			continue
		}
		// A connection that is down would keep the message in its buffer and send it
		// when it is up again, whenever that is.
		if !pub.p.conn.IsConnected() {
			pub.settle(i, nats.ErrDisconnected)
			continue
		}
		future, err := pub.p.js.PublishMsgAsync(message(e), pub.p.opts...)
		if err != nil {
			pub.settle(i, err)
			continue
		}
		pub.futures[n] = future
	}
}

// await waits for all acknowledgements of the wave. Every future ends within the time
// that the publisher's context sets for it.
func (pub *publication) await() {
	for n, future := range pub.futures {
		if future == nil {
			continue
		}
		select {
		case ack := <-future.Ok():
			pub.settle(pub.wave[n], check(ack))
		case err := <-future.Err():
			pub.settle(pub.wave[n], err)
		}
	}
}

// check reads an acknowledgement. A duplicate is one: the stream has the event already.
func check(ack *jetstream.PubAck) error {
	if ack.Sequence == 0 {
		return fmt.Errorf("stream %s acknowledged without a sequence", ack.Stream)
	}
	return nil
}

func (pub *publication) settle(i int, err error) {
	if err == nil {
		return
	}
	e := pub.events[i]
	wrapped := fmt.Errorf("natspub: publish event %s to %s: %w", e.ID, e.Topic, err)
	switch {
	case permanent(err):
		pub.fail(i, outbox.Permanent(wrapped))
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		// The window stayed full, so this one was not sent.
		pub.fail(i, fmt.Errorf("%w: %w", outbox.ErrNotSent, wrapped))
		pub.down = true
	default:
		pub.fail(i, wrapped)
		pub.down = pub.down || down(err)
	}
}

// permanent tells an error that is about the event itself.
func permanent(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum || api.ErrorCode == errCodeHeaderExceedsMaximum
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrBadHeaderMsg)
}

// errCodeHeaderExceedsMaximum is the server's code for headers of more than 64 KiB, which
// nats.go has no name for.
const errCodeHeaderExceedsMaximum jetstream.ErrorCode = 10097

// down tells an error after which nothing else is worth sending now. An answer, of whatever
// kind, says that the connection is up.
func down(err error) bool {
	var api *jetstream.APIError
	return !errors.As(err, &api) && !errors.Is(err, jetstream.ErrNoStreamResponse)
}

func (pub *publication) fail(i int, err error) {
	pub.errs[i] = err
	if key := pub.events[i].Key; key != nil {
		pub.failed[string(key)] = true
	}
}

func (pub *publication) result() []error {
	for _, err := range pub.errs {
		if err != nil {
			return pub.errs
		}
	}
	return nil
}
