package kafkapub

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// Names of the headers that every record has: the event's ID, the same on every copy, and
// its type, where it has one.
const (
	HeaderID   = "id"
	HeaderType = "type"
)

// Validate says whether Kafka could ever take the event. What only the broker knows, such
// as a topic's own limit of size, it cannot say.
func (p *Publisher) Validate(e store.Event) error {
	if err := validate(e, batchBytes(p.w)); err != nil {
		return outbox.Permanent(fmt.Errorf("kafkapub: event %s: %w", e.ID, err))
	}
	return nil
}

func validate(e store.Event, limit int) error {
	if e.ID.IsZero() {
		return errors.New("it has no ID: without one no receiver can collapse its copies")
	}
	if err := checkTopic(e.Topic); err != nil {
		return err
	}
	size := len(e.Key) + len(e.Payload)
	for _, h := range e.Headers {
		if h.Key == HeaderID || h.Key == HeaderType {
			return fmt.Errorf("the header %q is written by the publisher: give yours another name", h.Key)
		}
		size += len(h.Key) + len(h.Value)
	}
	if size > limit {
		return fmt.Errorf("it has %d bytes: the Writer takes at most %d in a message (BatchBytes)", size, limit)
	}
	return nil
}

// checkTopic holds the name against the rules of the broker, which would otherwise answer
// that there is no such topic.
func checkTopic(topic string) error {
	if topic == "" || len(topic) > 249 || topic == "." || topic == ".." {
		return fmt.Errorf("%q is not a name for a topic: 1 to 249 characters, and not . or ..", topic)
	}
	for i := range len(topic) {
		switch c := topic[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%q is not a name for a topic: only letters, digits, full stop, underscore and hyphen are allowed", topic)
		}
	}
	return nil
}

// message turns an event into a record. Nil and empty stay apart: a nil payload is a
// tombstone, and a nil key goes to any partition.
func message(e store.Event) kafka.Message {
	headers := make([]kafka.Header, 0, len(e.Headers)+2)
	headers = append(headers, kafka.Header{Key: HeaderID, Value: []byte(e.ID.String())})
	if e.Type != "" {
		headers = append(headers, kafka.Header{Key: HeaderType, Value: []byte(e.Type)})
	}
	for _, h := range e.Headers {
		headers = append(headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return kafka.Message{Topic: e.Topic, Key: e.Key, Value: e.Payload, Headers: headers}
}

// sizeAtMost is never less than what kafka-go counts for the message, so that what fits by
// this count is never cut into two batches.
func sizeAtMost(m kafka.Message) int {
	const fixed, perHeader = 48, 20
	size := fixed + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += perHeader + len(h.Key) + len(h.Value)
	}
	return size
}
