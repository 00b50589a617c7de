package natssub

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// maxReason bounds the reason in the server's advisory, in bytes. The dead letter has all of it.
const maxReason = 1024

// acknowledge tells the server that messages are settled. They stay in hand until the server
// confirms that it knows, which bounds those on their way. An acknowledgement that is not
// confirmed is only a warning: the message comes again, and its mark says that it is done.
func (r *run) acknowledge(hs ...*held) {
	for _, h := range hs {
		r.settled(h)
	}
	r.answer("acknowledgement", "+ACK", hs...)
}

// terminate tells the server never to deliver the message again, and why.
func (r *run) terminate(h *held, reason error) {
	r.settled(h)
	text := reason.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	r.answer("termination", "+TERM "+text, h)
}

// settled forgets what is known of a message that is done.
func (r *run) settled(h *held) {
	r.health.progressed()
	r.memory.forget(h)
	r.forgetAttempts(h)
}

// answer goes past the client's own methods for a message, which either do not wait or wait
// each on a goroutine and a timer of its own. One confirmation stands for messages that are answered
// together, because the server takes the answers of a connection in their order. Where its leader
// changes in between it may stand for too much, and the others are delivered again.
func (r *run) answer(what, answer string, hs ...*held) {
	if len(hs) == 0 {
		return
	}
	for _, h := range hs {
		h.hush()
	}
	r.mu.Lock()
	left := r.left
	if !left {
		r.answers.Add(1)
	}
	r.mu.Unlock()
	if left {
		return
	}
	data, last := []byte(answer), hs[len(hs)-1]
	for _, h := range hs[:len(hs)-1] {
		_ = r.js.Conn().Publish(h.msg.Reply(), data) // where it fails, so does the last one
	}
	r.confirmer.send(last.msg.Reply(), data, func(err error) {
		defer r.answers.Done()
		if err != nil {
			r.log.Warn(what+" not confirmed: what the server does not know of is delivered again and found done",
				"messages", len(hs), "first", hs[0].place.sequence, "last", last.place.sequence, "error", err)
		}
		r.hand.drop(hs...)
	})
}

// giving is a message to be given back, and its delay.
type giving struct {
	*held
	after time.Duration
}

// giveBack lets the server deliver the message again, to whichever process asks, at once
// or after the delay. When the run ends or is paused that waits until this process asks for nothing
// any more: the server would deliver the message to it again, over and over, and by its count of
// deliveries the next process would take it for one that ends processes.
func (r *run) giveBack(h *held, after time.Duration) {
	paused := r.Paused()
	r.mu.Lock()
	wait := r.asking && (paused || r.stopping())
	if wait {
		r.returns = append(r.returns, giving{h, after})
	}
	r.mu.Unlock()
	if !wait {
		r.nak(h, after)
	}
}

// asks notes that a request is about to be sent to the server.
func (r *run) asks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = true
}

// giveReturns gives back what has waited until nothing is asked for.
func (r *run) giveReturns() {
	r.mu.Lock()
	returns := r.returns
	r.returns, r.asking = nil, false
	r.mu.Unlock()
	for _, g := range returns {
		r.nak(g.held, g.after)
	}
}

// nak is what tells the server. If that does not reach it, the ack wait does the same later.
func (r *run) nak(h *held, after time.Duration) {
	if r.gone() {
		return
	}
	h.hush()
	r.hand.drop(h)
	r.memory.remember(h)
	r.givenBack.Add(1)
	if m := r.terms.maxDeliver; m > 0 && h.deliveries >= m {
		r.log.Error("message given back at its last delivery: the server gives it up", "sequence", h.place.sequence, "deliveries", h.deliveries)
	}
	if err := h.msg.NakWithDelay(after); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		r.log.Warn("message not given back: the server delivers it after the ack wait", "sequence", h.place.sequence, "error", err)
	}
}

// giveBackAll leaves messages to others when the run ends. The server promises no order among
// what it gets back, so there is none to keep here.
func (r *run) giveBackAll(hs []*held) {
	for _, h := range hs {
		r.giveBack(h, 0)
	}
}

// bury gives the batch's first message up: its dead letter is committed first, and only then
// the server is told. It returns the messages that are still to be processed.
func (r *run) bury(batch []*held, attempts int, reason error) []*held {
	h := batch[0]
	if reason == nil {
		reason = errors.New("the processor gave no reason")
	}
	log := r.log.With("sequence", h.place.sequence, "subject", h.message.Topic, "attempts", attempts, "reason", reason)
	if r.burier == nil {
		r.end(fmt.Errorf("message %d would be given up, and there are no dead letters: %w", h.place.sequence, reason))
		return batch
	}
	m := h.message
	m.Attempt = attempts
	working := r.busy.enter(1)
	result := r.burier.Bury(r.handling, m, reason)
	r.busy.leave(working)
	switch {
	case result.Outcome == dedup.Buried:
		log.Error("message given up; it is among the dead letters")
		r.terminate(h, reason)
		return batch[1:]
	case result.Outcome.Settled():
		r.acknowledge(h)
		return batch[1:]
	}
	// Whatever the policy thinks of the message, only what it says of this error's cause
	// matters here: to wait for it, or to end.
	h.streak++
	if d := r.policy.Decide(result, 0, h.streak); d.Action == consumers.Stop {
		return r.giveUp(batch, result)
	}
	return r.retry(batch, result, r.policy.Delay(h.streak), true)
}
