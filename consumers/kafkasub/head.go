package kafkasub

import (
	"time"

	"github.com/semel-dev/semel/dedup"
)

// head is what is known of the message that everything behind it in its lane waits for.
type head struct {
	offset   int64
	time     time.Time
	spent    int       // attempts
	failures int       // results in a row that did not settle it
	due      time.Time // of the next try
	begun    bool      // its start may be counted, and is to be taken back unless the process dies
	cleared  bool      // it has failed in this process and has not ended it: its starts are not counted any more
	counted  bool      // something of it is, which is to be forgotten once it is settled
}

func (h *head) isOf(p dedup.Position) bool { return h.offset == p.Offset && h.time.Equal(p.Time) }

// lead makes the front of the queue the head, with what is known of it.
func (l *lane) lead() {
	m := l.queue.front()
	if !l.head.isOf(m.Position) {
		l.head = l.partition.known[m.Position.Offset]
		if !l.head.isOf(m.Position) {
			l.head = head{offset: m.Position.Offset, time: m.Position.Time}
		}
	}
	m.Attempt = l.head.spent + 1
}

// keepsake is what outlives a generation that gives a partition up, should it come back.
type keepsake struct {
	heads    map[int64]head // of messages that fail, by their offset
	progress time.Time
}

func (c *Consumer) known(at place) keepsake {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[at]
	if !ok {
		k.progress = time.Now()
	}
	return k
}

func (c *Consumer) remember(at place, k keepsake) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[at] = k
}
