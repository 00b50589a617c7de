package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// Writer keeps messages for later: its methods are handlers for a guard, which sets the message's
// mark in the same transaction. TTx is that transaction. A Writer is safe for concurrent use.
//
// The guard around it and the guard around the work must have different consumer names, wherever
// they share a schema: with one name the first mark would make the work a duplicate, and
// it would never be done. [New] sees to that.
type Writer[TTx any] struct {
	appender    store.Appender[TTx]
	destination string
	writerConfig
}

// NewWriter returns a writer over a store. The destination is the name under which a relay is
// given the [Publisher] of the work; it must stay the same over deploys while messages are
// kept, and other work has another one. NewWriter does no I/O.
func NewWriter[TTx any](a store.Appender[TTx], destination string, opts ...WriterOption) (*Writer[TTx], error) {
	if a == nil {
		return nil, errors.New("inbox: the appender is nil: pass a store, such as a *pgstore.Store")
	}
	if err := checkDestination(destination); err != nil {
		return nil, err
	}
	c := writerConfig{order: dedup.OrderByKey}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("inbox: an option is nil")
		}
		if err := o.applyWriter(&c); err != nil {
			return nil, fmt.Errorf("inbox: %w", err)
		}
	}
	return &Writer[TTx]{a, destination, c}, nil
}

func checkDestination(name string) error {
	e := store.Event{Destination: name, Topic: lane(nil, store.ID{})}
	if err := e.Check(); err != nil {
		return fmt.Errorf("inbox: destination %.40q: %w", name, err)
	}
	return nil
}

// KeepTx stores the message and does nothing else. It is a [dedup.TxHandlerFunc]. What
// cannot be kept, because it has more than 64 MiB, is a [dedup.Permanent] error.
func (w *Writer[TTx]) KeepTx(ctx context.Context, tx TTx, m dedup.Message) error {
	return w.KeepAllTx(ctx, tx, []dedup.Message{m})
}

// KeepAllTx stores messages in their order, in one round trip. It is a [dedup.TxBatchHandlerFunc].
func (w *Writer[TTx]) KeepAllTx(ctx context.Context, tx TTx, ms []dedup.Message) error {
	events := make([]store.Event, len(ms))
	for i := range ms {
		var err error
		if events[i], err = w.event(&ms[i]); err != nil {
			return dedup.Permanent(fmt.Errorf("inbox: keep %s/%d/%d for %s: %w",
				ms[i].Position.Log, ms[i].Position.Partition, ms[i].Position.Offset, w.destination, err))
		}
	}
	if err := w.appender.AppendTx(ctx, tx, events); err != nil {
		return fmt.Errorf("inbox: keep %d messages for %s: %w", len(ms), w.destination, err)
	}
	if run := store.RunFrom(ctx); run != nil && w.wake != nil {
		run.AfterCommit(w.wake)
	}
	return nil
}

// maxMessage is what an outbox takes at most as a payload, see outbox.WithMaxPayload.
const maxMessage = 64 << 20

// event is the form in which a message is kept. Its id follows from the mark, so a handler that
// runs again writes the same one.
func (w *Writer[TTx]) event(m *dedup.Message) (store.Event, error) {
	e := store.Event{
		ID: m.ChildID("inbox/" + w.destination), Destination: w.destination,
		Key: orderKey(w.order(*m)), Type: label(m.Topic), Payload: encode(m),
	}
	e.Topic = lane(e.Key, e.ID)
	if len(e.Payload) > maxMessage {
		return e, fmt.Errorf("it has %d bytes where %d are the most", len(e.Payload), maxMessage)
	}
	return e, e.Check()
}

// orderKey is the event's key of an ordering key. One that is too long for it is replaced
// by its digest: two keys that then fell together would only wait for each other.
func orderKey(order []byte) []byte {
	switch {
	case len(order) == 0:
		return nil
	case len(order) > store.MaxEventKey:
		id := store.OrderID(order)
		return []byte("long key " + id.String())
	default:
		return order
	}
}

// lane is one of 256 by which messages are divided: the topic of their event. A relay works on
// lanes at the same time and on each one message after another, so a message that takes long, or
// hangs, holds up its lane and no other. All messages of an ordering key are in one lane. The
// number is part of what is stored and never changes.
//
// A lane per ordering key would hold up nobody else at all. But a relay bounds what it has
// in memory by lane, so a backlog of a million keys would be read as a whole.
func lane(key []byte, id store.ID) string {
	if key != nil {
		id = store.OrderID(key)
	}
	return fmt.Sprintf("lane-%03d", id[0])
}

// label is where the message came from, for the person who looks at the tables.
func label(topic string) string {
	topic = strings.ReplaceAll(strings.ToValidUTF8(topic, "?"), "\x00", "?")
	if len(topic) > store.MaxEventType {
		topic = strings.ToValidUTF8(topic[:store.MaxEventType], "")
	}
	return topic
}
