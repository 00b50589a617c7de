package kafkapub

import (
	"context"
	"fmt"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// publication is one call of Publish. It goes out in waves: first whatever may travel
// together, which is nearly always all of it, then those events whose key was in the
// first wave under another topic, because topics do not wait for each other.
type publication struct {
	p      *Publisher
	events []store.Event
	errs   []error
	failed map[string]bool // Keys of which an event was not confirmed.

	waiting []int // Events of later waves.
	calls   []*call
	index   map[*item]int
}

func newPublication(p *Publisher, events []store.Event) *publication {
	pub := &publication{p: p, events: events, errs: make([]error, len(events)), failed: make(map[string]bool)}
	pub.waiting = make([]int, len(events))
	for i := range pub.waiting {
		pub.waiting[i] = i
	}
	return pub
}

// next prepares a wave and reports whether there is one.
func (pub *publication) next(ctx context.Context) bool {
	pub.calls, pub.index = nil, make(map[*item]int)
	byTopic := make(map[string]*call)
	topicOf := make(map[string]string) // Of a key, in this wave.
	var later []int
	for _, i := range pub.waiting {
		e := pub.events[i]
		key, keyed := string(e.Key), e.Key != nil
		if ctx.Err() != nil || keyed && pub.failed[key] {
			pub.fail(i, outbox.ErrNotSent)
			continue
		}
		if err := pub.p.Validate(e); err != nil {
			pub.fail(i, err)
			continue
		}
		if keyed {
			if topic, seen := topicOf[key]; seen && topic != e.Topic {
				// No topic is empty, so whatever follows of this key waits as well.
				topicOf[key] = ""
				later = append(later, i)
				continue
			}
			topicOf[key] = e.Topic
		}
		c := byTopic[e.Topic]
		if c == nil {
			c = &call{done: make(chan struct{}), failed: make(map[string]bool)}
			byTopic[e.Topic] = c
			pub.calls = append(pub.calls, c)
		}
		it := &item{id: e.ID, key: key, keyed: keyed, msg: message(e), call: c}
		it.size = sizeAtMost(it.msg)
		c.items = append(c.items, it)
		c.open++
		pub.index[it] = i
	}
	pub.waiting = later
	return len(pub.calls) > 0
}

// collect reads the results of a wave.
func (pub *publication) collect() {
	pub.p.mu.Lock()
	defer pub.p.mu.Unlock()
	for it, i := range pub.index {
		switch {
		case !it.settled:
			pub.fail(i, fmt.Errorf("kafkapub: write event %s to %s: no answer in time, it may still be written",
				it.id, it.msg.Topic))
		case it.err != nil:
			pub.fail(i, it.err)
		}
	}
}

func (pub *publication) fail(i int, err error) {
	pub.errs[i] = err
	if key := pub.events[i].Key; key != nil {
		pub.failed[string(key)] = true
	}
}

func (pub *publication) result() []error {
	for _, err := range pub.errs {
		if err != nil {
			return pub.errs
		}
	}
	return nil
}
