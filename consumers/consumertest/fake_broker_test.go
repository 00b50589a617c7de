package consumertest_test

import (
	"sync"
	"time"

	"github.com/semel-dev/semel/consumers/consumertest"
	"github.com/semel-dev/semel/dedup"
)

// broker is a log in memory, with one group of consumers that share its messages.
type broker struct {
	lie string

	mu      sync.Mutex
	log     []*stored
	clock   time.Duration // no two messages are stored at one time
	changed chan struct{}
	up      chan struct{} // closed when the broker restarts
}

type stored struct {
	consumertest.Message
	offset int
	at     time.Time
	done   bool
	holder *consumer
	due    time.Time
}

func newBroker(lie string) *broker {
	return &broker{lie: lie, changed: make(chan struct{}), up: make(chan struct{})}
}

func (b *broker) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *broker) publish(ms ...consumertest.Message) {
	b.change(func() {
		for _, m := range ms {
			b.clock++
			b.log = append(b.log, &stored{Message: m, offset: len(b.log), at: time.Now().Add(b.clock)})
		}
	})
}

func (b *broker) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, s := range b.log {
		if !s.done {
			n++
		}
	}
	return n
}

func (b *broker) remake() { b.change(func() { b.log = nil }) }

func (b *broker) restart() {
	b.change(func() {
		close(b.up)
		b.up = make(chan struct{})
	})
}

// release frees what the consumer held.
func (b *broker) release(c *consumer) {
	b.change(func() {
		for _, s := range b.log {
			if s.holder == c {
				s.holder = nil
			}
		}
	})
}

// ready returns what may be handed to the consumer now, and how long until that may change by itself.
func (b *broker) ready(c *consumer) (list []*stored, wait time.Duration) {
	wait = time.Hour
	blocked := map[string]bool{}
	for _, s := range b.log {
		if s.done && !c.replays(s) || blocked[string(s.Key)] {
			continue
		}
		rest := time.Until(s.due)
		if s.holder == nil && rest <= 0 && c.wants(s) {
			list = append(list, s) // Others of its key may go with it.
			continue
		}
		wait = min(wait, max(rest, time.Millisecond))
		switch {
		case b.lie == "goes on behind a failed one" && s.holder == nil, b.lie == "several at a time":
		case c.order == consumertest.InOrder, b.lie == "holds everybody":
			return list, wait
		case c.order == consumertest.PerKey && b.lie != "keys do not matter":
			blocked[string(s.Key)] = true
		}
	}
	return list, wait
}

func (s *stored) message() dedup.Message {
	return dedup.Message{
		Position: dedup.Position{Broker: "fake", Log: "log", Offset: int64(s.offset), Time: s.at},
		Topic:    "log", Key: s.Key, Headers: s.Headers, Body: s.Body,
	}
}
