package kafkasub

import (
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

// place is one partition of one topic.
type place struct {
	topic     string
	partition int
}

func (p place) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

// message is what a handler sees of a record. kafka-go allocates key, value and headers for
// each record, so they may be handed on as they are.
func message(m kafka.Message) dedup.Message {
	var headers []dedup.Header
	if len(m.Headers) > 0 {
		headers = make([]dedup.Header, len(m.Headers))
		for i, h := range m.Headers {
			headers[i] = dedup.Header{Key: h.Key, Value: h.Value}
		}
	}
	return dedup.Message{
		Position: dedup.Position{
			Broker:    "kafka",
			Log:       m.Topic,
			Partition: m.Partition,
			Offset:    m.Offset,
			Time:      positionTime(m.Time),
		},
		Topic:   m.Topic,
		Key:     m.Key,
		Headers: headers,
		Body:    m.Value,
		Attempt: 1,
	}
}

// positionTime is the time of a record for its coordinates.
func positionTime(t time.Time) time.Time {
	if t.IsZero() {
		// The log keeps no times. Its coordinates still tell its records apart, only not from
		// those of a log that is made again, and one without a key can be given up.
		return time.UnixMilli(0)
	}
	return t
}

// markerShaped says that a record has the bytes of a transaction marker: as key its version, 0,
// and its type, 0 for abort or 1 for commit; as value a version, 0, and the epoch of the
// coordinator. Data may have the same bytes, so this alone proves nothing.
func markerShaped(m kafka.Message) bool {
	return len(m.Key) == 4 && len(m.Value) == 6 && len(m.Headers) == 0 &&
		m.Key[0] == 0 && m.Key[1] == 0 && m.Key[2] == 0 && m.Key[3] <= 1 &&
		m.Value[0] == 0 && m.Value[1] == 0
}
