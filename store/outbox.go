package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event is one outgoing message. It is written in the transaction of the business
// change and leaves after the commit.
type Event struct {
	// ID is the same on every attempt and every copy; receivers collapse copies by it.
	// Left zero, the writer derives it from the message being handled, or makes a
	// random one outside of a handler.
	ID ID
	// Destination names the publisher that a relay was given for it, such as "kafka" or
	// "partner-webhooks".
	Destination string
	// Topic is where it goes there: a Kafka topic, a NATS subject, a webhook endpoint.
	Topic string
	// Key orders: events of one destination and key are delivered in the order in which
	// they were written by writers that serialise on the key. Nil means no order. On
	// Kafka it is also the record's key.
	Key []byte
	// Type says what happened, such as "payment.captured".
	Type string
	// Payload leaves byte for byte as it is. Nil (a tombstone on Kafka) and empty differ.
	Payload []byte
	Headers []Header
}

// Appender writes events inside the caller's transaction.
type Appender[TTx any] interface {
	// AppendTx writes the events in their order, in one round trip at most. Every event
	// has an ID and has passed [Event.Check]. Nobody sees them before the commit.
	AppendTx(ctx context.Context, tx TTx, events []Event) error
}

// What an event may have at most, in bytes; headers are counted as a whole. The payload's
// limit is the writer's to choose.
const (
	MaxDestination = 200
	MaxTopic       = 1024
	MaxEventKey    = 1024
	MaxEventType   = 255
	MaxHeaders     = 64 << 10
)

// Check says what is wrong with an event, wherever it goes. Key, payload and header values
// may hold any bytes.
func (e *Event) Check() error {
	size := 0
	for _, h := range e.Headers {
		if h.Key == "" {
			return errors.New("a header has no name")
		}
		size += len(h.Key) + len(h.Value)
	}
	switch {
	case e.Destination == "":
		return errors.New("the destination is empty: name the publisher that is to send the event")
	case e.Topic == "":
		return errors.New("the topic is empty: say where in the destination the event goes")
	case len(e.Key) > MaxEventKey:
		return fmt.Errorf("the key has %d bytes where %d are the most: it orders events and is not their content", len(e.Key), MaxEventKey)
	case size > MaxHeaders:
		return fmt.Errorf("the headers have %d bytes where %d are the most", size, MaxHeaders)
	}
	return errors.Join(
		checkText("destination", e.Destination, MaxDestination),
		checkText("topic", e.Topic, MaxTopic),
		checkText("type", e.Type, MaxEventType),
	)
}

func checkText(what, s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("the %s has %d bytes where %d are the most: %.40q", what, len(s), most, s)
	case !utf8.ValidString(s):
		return fmt.Errorf("the %s %q is not valid UTF-8", what, s)
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("the %s %q contains a NUL byte", what, s)
	}
	return nil
}

// Slots is the number of slots that relays divide among themselves. It never changes: a
// key that moved to another slot would have two owners.
const Slots = 64

// Slot is where the event is queued: the FNV-1a hash of destination, a zero byte and key,
// folded to 32 bits, modulo [Slots]; the same of the id where the key is nil. It is
// the same in every process and version.
func (e *Event) Slot() int16 {
	const offset, prime = 14695981039346656037, 1099511628211
	sum := uint64(offset)
	if e.Key == nil {
		for _, b := range e.ID {
			sum = (sum ^ uint64(b)) * prime
		}
	} else {
		for i := range len(e.Destination) {
			sum = (sum ^ uint64(e.Destination[i])) * prime
		}
		sum *= prime // the zero byte
		for _, b := range e.Key {
			sum = (sum ^ uint64(b)) * prime
		}
	}
	return int16(uint32(sum^sum>>32) % Slots)
}
