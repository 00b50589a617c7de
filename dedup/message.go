package dedup

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// Header is one name and value of a message; names are compared byte by byte.
type Header = store.Header

// Position is where a broker keeps a message. It is the same on every delivery.
type Position struct {
	// Broker is the kind of log: "kafka", "nats", "webhook".
	Broker string
	// Log is the topic, the stream, or the source of a webhook.
	Log string
	// Partition is zero where the log has none.
	Partition int
	// Offset is the offset or the stream sequence.
	Offset int64
	// Time is what the log stored with the message. It tells a message from another one
	// that has its place in a log that was deleted and made again.
	Time time.Time
}

// Message is what a consumer got from its broker. The slices belong to the consumer:
// a handler that keeps them beyond its return copies them.
type Message struct {
	Position Position
	// Topic is the Kafka topic, the NATS subject, or the webhook's event type.
	Topic string
	// Key is the broker's key. It names an entity and orders its messages; it is not an
	// identity of the message.
	Key     []byte
	Headers []Header
	// Body is nil where the broker cannot tell nil from empty and there is none.
	Body []byte
	// Attempt counts the runs of the handler for this message, from 1, as far as the
	// consumer knows: after a restart it may begin again.
	Attempt int
	// Epoch is that of the position fence, as [Fencer].Applied told it; zero without a fence.
	Epoch int64

	origin store.Origin
	token  int64
	// originOf finds the origin where it was not needed so far.
	originOf func(*Message) store.Origin
}

// Header returns the value of the first header of that name.
func (m Message) Header(name string) ([]byte, bool) {
	for _, h := range m.Headers {
		if h.Key == name {
			return h.Value, true
		}
	}
	return nil, false
}

// ChildID returns the id for something that this message causes. The same message, consumer
// and name give the same id in every run and every process: use it for outbox events
// and as the idempotency key of calls to others. It is meant for handlers; outside of
// one, where no guard has identified the message, it panics.
func (m Message) ChildID(name string) store.ID {
	origin := m.whence()
	if origin.IsZero() {
		panic("dedup: ChildID of a message that no guard has identified")
	}
	return store.ChildID(origin.ID(), name)
}

func (m *Message) whence() store.Origin {
	if m.origin.IsZero() && m.originOf != nil {
		m.origin = m.originOf(m)
	}
	return m.origin
}

// run is a new run of the handler for the message, which must stay where it is.
func (m *Message) run() *store.Run {
	if m.origin.IsZero() && m.originOf != nil {
		return store.NewRunOf(m.whence)
	}
	return store.NewRun(m.origin)
}

// FencingToken is the token of the lease under which a [Guard] runs the handler: hand it
// to whatever can refuse a smaller one after a larger one. Zero under a [TxGuard], whose
// transaction needs none.
func (m Message) FencingToken() int64 { return m.token }
