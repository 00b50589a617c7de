package natssub

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/dedup"
)

// place tells a message from all others that a durable ever delivers. The time is part of
// it because a stream that is made again begins its sequence anew.
type place struct {
	sequence uint64
	stored   int64
}

// held is a message in hand: from its arrival until it is acknowledged or given back. One
// goroutine at a time works on it; only the heartbeat comes in between.
type held struct {
	msg     jetstream.Msg
	message dedup.Message
	place   place
	arrived time.Time
	// key is what its order is kept by; empty without one.
	key string

	// deliveries is the server's count, as of the last copy that arrived.
	deliveries int
	history
	// suspect: it is tried alone because earlier deliveries of it vanished.
	suspect bool

	mu sync.Mutex
	// quiet: the message has been answered and gets no more heartbeats.
	quiet bool
}

func hold(msg jetstream.Msg) (*held, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("message on %q without the broker's metadata: %w", msg.Subject(), err)
	}
	m := dedup.Message{
		Position: dedup.Position{
			Broker: "nats",
			Log:    meta.Stream,
			Offset: int64(meta.Sequence.Stream),
			Time:   meta.Timestamp,
		},
		Topic:   msg.Subject(),
		Headers: headers(msg.Headers()),
	}
	// NATS does not tell an empty body from none.
	if body := msg.Data(); len(body) > 0 {
		m.Body = body
	}
	return &held{
		msg:        msg,
		message:    m,
		place:      place{sequence: meta.Sequence.Stream, stored: meta.Timestamp.UnixNano()},
		arrived:    time.Now(),
		deliveries: int(meta.NumDelivered),
	}, nil
}

// headers lists each value on its own, names in byte order and the values of one name in
// the order in which they were sent.
func headers(h nats.Header) []dedup.Header {
	if len(h) == 0 {
		return nil
	}
	list := make([]dedup.Header, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			list = append(list, dedup.Header{Key: name, Value: []byte(value)})
		}
	}
	return list
}

// beat tells the server that the message is being worked on, unless it has been answered.
func (h *held) beat() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quiet {
		return nil
	}
	return h.msg.InProgress()
}

// hush ends the heartbeats. It comes before every answer: a heartbeat behind a nak would
// put the message off by a whole ack wait.
func (h *held) hush() {
	h.mu.Lock()
	h.quiet = true
	h.mu.Unlock()
}
