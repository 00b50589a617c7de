package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/semel-dev/semel/store"
)

// Publisher sends events to one destination: a Kafka cluster, a JetStream account, the
// endpoints of your customers. A relay is given it under the name that events carry in
// their Destination.
//
// Publishing is at least once. A relay that dies after the destination confirmed an
// event and before it has noted so sends it again, and so does one that never learnt the
// answer. Every copy carries the event's ID, by which receivers collapse copies.
type Publisher interface {
	// Publish sends the events and returns what became of each, in their order: nil where
	// the destination has confirmed it, else an error that [VerdictOf] tells apart. A nil
	// slice says that all were confirmed; any other has the length of events.
	//
	// Order. Events with an equal Key that is not nil stand in the slice in the order in
	// which they must arrive, whatever their topics (within one topic, for a [Splitter]).
	// Once one of them is not confirmed, none of those behind it is sent by this call:
	// they get [ErrNotSent]. Publish is called from many goroutines at once, but never
	// for a key of which an earlier call has not returned.
	//
	// Outcome. Nil is never a guess: a timeout, a lost connection and an ended context
	// leave open whether the event arrived, and are errors. The event is sent again
	// then, with the same ID.
	//
	// Context. When ctx ends, nothing more is begun. What is under way may be waited for,
	// within a limit of the publisher's own, because its answer saves a copy. Where the
	// client library cannot be stopped and that limit has passed, Publish returns all the same;
	// handed the event again, it waits for the old send and never begins a second one beside it.
	//
	// Memory. The events and their bytes are not changed. Nobody else may change them
	// either: a send that outlives the call still reads them.
	Publish(ctx context.Context, events []store.Event) []error
}

// Validator is implemented by publishers that can tell before an event is stored that no
// attempt could ever deliver it: a subject with a space, a payload above the limit. A
// writer that knows the publisher asks it, so that the transaction fails where the
// mistake is made. Nothing depends on the question: Publish checks again.
type Validator interface {
	// Validate does no I/O. Its error is [Permanent].
	Validate(e store.Event) error
}

// Splitter is implemented by publishers whose topics are servers of their own, such as
// webhook endpoints: one that hangs says nothing about the next. Publish returns when the
// slowest of its events has, so a relay hands such a publisher the events of one topic
// at a time and makes calls for different topics at the same time.
type Splitter interface {
	// SplitByTopic does nothing. Having it is the statement.
	SplitByTopic()
}

// Verdict is what an error of [Publisher].Publish says about its event.
type Verdict uint8

const (
	// Confirmed: the destination has the event.
	Confirmed Verdict = iota + 1
	// NotSent: nothing was tried, because of another event or of the context. It says
	// nothing about this event or its topic and uses no attempt.
	NotSent
	// Unreached: the destination, or the event's topic there, could not be reached, was
	// not willing for reasons that have nothing to do with this event, or did not answer: the event
	// may have arrived. It uses no attempt. Other topics may be well.
	Unreached
	// RefusedOnce: the destination has looked at this event and said no. It uses an attempt.
	RefusedOnce
	// RefusedForGood: no further attempt could end otherwise. The event is parked at once.
	RefusedForGood
)

func (v Verdict) String() string {
	switch v {
	case Confirmed:
		return "confirmed"
	case NotSent:
		return "not sent"
	case Unreached:
		return "unreached"
	case RefusedOnce:
		return "refused"
	case RefusedForGood:
		return "refused for good"
	default:
		return "no verdict"
	}
}

// VerdictOf reads an error that Publish returned for an event. One that is [Permanent] is so whatever
// was put around it. An error that nobody has marked is Unreached: a fault that is not known to
// be the event's must not cost it its attempts, or an outage would park whatever was waiting.
func VerdictOf(err error) Verdict {
	var r *refusedError
	switch {
	case err == nil:
		return Confirmed
	case errors.Is(err, ErrNotSent):
		return NotSent
	case store.IsPermanent(err):
		return RefusedForGood
	case errors.As(err, &r):
		return RefusedOnce
	default:
		return Unreached
	}
}

// ErrNotSent is the error of an event that Publish did not try to send.
var ErrNotSent = errors.New("outbox: not sent: an earlier event of its key is not confirmed, or the call ended first")

// Refused marks an error as the destination's answer to this one event. It uses up an
// attempt; another one may succeed. Refused(nil) is nil.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err}
}

type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// Permanent marks an error that no further attempt can mend: the event is parked at
// once, and its key waits behind it. Permanent(nil) is nil. The error of a handler that dedup.Permanent
// has marked says the same, so a publisher that calls one may return it as it is.
func Permanent(err error) error { return store.Permanent(err) }

// RetryAfter adds to an error that the destination asked not to be called again sooner
// than after d. It leaves the verdict as it is. A publisher passes on only what is
// sensible: d is not negative and has an upper bound. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error { return store.RetryAfter(d, err) }

// RetryDelay returns what [RetryAfter] asked for, of several the outermost. A relay adds jitter above
// it, never below.
func RetryDelay(err error) (time.Duration, bool) { return store.RetryDelay(err) }
