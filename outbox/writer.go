package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// Writer stores events inside transactions. TTx is the transaction, as in the handlers of
// package dedup. A Writer is safe for concurrent use.
type Writer[TTx any] struct {
	appender store.Appender[TTx]
	writerConfig
}

// NewWriter returns a writer over a store. It does no I/O.
func NewWriter[TTx any](a store.Appender[TTx], opts ...WriterOption) (*Writer[TTx], error) {
	if a == nil {
		return nil, errors.New("outbox: the appender is nil: pass a store, such as a *pgstore.Store")
	}
	c, err := newWriterConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return &Writer[TTx]{a, c}, nil
}

// WriteTx stores the events in the transaction, in their order. They leave after its commit;
// if it rolls back they were never there. An error means that the transaction should be
// rolled back: where it is an [*EventError], nothing was sent to the database and the
// mistake is the caller's.
//
// An event without an ID gets one. Inside a handler of package dedup it follows from the
// message and the event's ordinal, so that a handler that runs again writes the same ids;
// a handler that takes many messages at once has no ordinal to go by and must set each
// ID, with the message's ChildID. Outside of a handler the ID is random.
//
// The events' bytes are not kept beyond the call, except where TTx only queues statements:
// then until the transaction ends.
func (w *Writer[TTx]) WriteTx(ctx context.Context, tx TTx, events ...store.Event) error {
	if len(events) == 0 {
		return nil
	}
	// The caller's slice stays as it is: a handler that runs again with the ids of its first
	// run in it would be right by accident only.
	own := make([]store.Event, len(events))
	copy(own, events)
	run := store.RunFrom(ctx)
	for i := range own {
		if err := w.complete(&own[i], run); err != nil {
			return &EventError{Index: i, Event: events[i], Err: err}
		}
	}
	if err := w.appender.AppendTx(ctx, tx, own); err != nil {
		return fmt.Errorf("outbox: write %d events: %w", len(own), err)
	}
	if run != nil && w.wake != nil {
		run.AfterCommit(w.wake)
	}
	return nil
}

// complete checks an event and gives it an id.
func (w *Writer[TTx]) complete(e *store.Event, run *store.Run) error {
	if err := e.Check(); err != nil {
		return err
	}
	if len(e.Payload) > w.maxPayload {
		return fmt.Errorf("the payload has %d bytes where %d are the most: see WithMaxPayload", len(e.Payload), w.maxPayload)
	}
	if w.destinations != nil && !w.destinations[e.Destination] {
		return fmt.Errorf("there is no destination %q: it is none of those given to WithDestinations", e.Destination)
	}
	if e.ID.IsZero() {
		if err := giveID(e, run); err != nil {
			return err
		}
	}
	if v := w.validators[e.Destination]; v != nil {
		return v.Validate(*e)
	}
	return nil
}

func giveID(e *store.Event, run *store.Run) error {
	if run == nil {
		e.ID = store.NewID()
		return nil
	}
	id, ok := run.NextID()
	if !ok {
		return errors.New("the event has no ID, and this handler takes many messages at once: set it to m.ChildID(name), with the message that causes the event")
	}
	e.ID = id
	return nil
}

// EventError is an event that cannot be stored, or never be delivered, as it is.
type EventError struct {
	// Index is the event's place in the call.
	Index int
	// Event is as it was given.
	Event store.Event
	Err   error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("outbox: event %d (%q to %q): %v", e.Index, e.Event.Type, e.Event.Destination, e.Err)
}

// Unwrap returns the cause.
func (e *EventError) Unwrap() error { return e.Err }
