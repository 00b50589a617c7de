package natssub

import (
	"sync"
	"time"
)

// calls are those of handlers that have not returned.
type calls struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]call
}

// call is one of them.
type call struct {
	messages int
	since    time.Time
}

// enter notes that a handler gets so many messages, until leave.
func (c *calls) enter(messages int) (number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[uint64]call{}
	}
	c.last++
	c.open[c.last] = call{messages, time.Now()}
	return c.last
}

func (c *calls) leave(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, number)
}

// now tells how many messages handlers have, and since when the one that has been at it for longest;
// zero while none is.
func (c *calls) now() (messages int, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.open {
		messages += one.messages
		if since.IsZero() || one.since.Before(since) {
			since = one.since
		}
	}
	return messages, since
}
