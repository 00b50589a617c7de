package kafkapub

import (
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/store"
)

// item is one event on its way.
type item struct {
	id    store.ID
	key   string // Empty and ordered only if keyed.
	keyed bool
	msg   kafka.Message
	size  int
	call  *call

	err     error
	settled bool
	// twins are the same event in later calls, handed over while this write was
	// running. They get its result instead of a write of their own.
	twins []*item
	// joined says that this is a twin.
	joined bool
}

// call is what one Publish hands to one topic.
type call struct {
	items []*item
	// next is the first item that has not been looked at.
	next int
	// open counts the items that are not settled; done is closed when it reaches zero.
	open int
	done chan struct{}
	// failed are the keys of which an item was not confirmed.
	failed map[string]bool
	// ended says that nothing more is to be begun.
	ended bool
}

// lane writes to one topic, one chunk at a time. Its fields are guarded by the
// publisher's mutex.
type lane struct {
	queue   []*call
	running map[store.ID]*item
}

// join lets an item share the write of the same event that is under way, if there is one.
func (l *lane) join(it *item) {
	first := l.running[it.id]
	if first == nil || first.settled {
		return
	}
	first.twins = append(first.twins, it)
	it.joined = true
}

// take removes from the queue what fits into one batch.
func (l *lane) take(maxCount, maxBytes int) []*item {
	var chunk []*item
	bytes := 0
	for len(l.queue) > 0 {
		c := l.queue[0]
		for c.next < len(c.items) {
			it := c.items[c.next]
			if it.settled {
				c.next++
				continue
			}
			if len(chunk) == maxCount || len(chunk) > 0 && bytes+it.size > maxBytes {
				l.run(chunk)
				return chunk
			}
			c.next++
			chunk = append(chunk, it)
			bytes += it.size
		}
		l.queue = l.queue[1:]
	}
	l.run(chunk)
	return chunk
}

func (l *lane) run(chunk []*item) {
	l.running = make(map[store.ID]*item, len(chunk))
	for _, it := range chunk {
		l.running[it.id] = it
	}
}

// end settles what has not been begun and sees to it that nothing is.
func (c *call) end(err error) {
	c.ended = true
	for _, it := range c.items[c.next:] {
		if !it.joined {
			it.settle(err)
		}
	}
}

// settle gives the item and its twins their result.
func (it *item) settle(err error) {
	if it.settled {
		return
	}
	it.settled, it.err = true, err
	c := it.call
	if err != nil && it.keyed {
		c.failed[it.key] = true
	}
	if c.open--; c.open == 0 {
		close(c.done)
	}
	for _, twin := range it.twins {
		twin.settle(err)
	}
	it.twins = nil
}
