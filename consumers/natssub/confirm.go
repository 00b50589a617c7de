package natssub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// confirmer sends answers to messages and hears the server's confirmations, all on one
// subscription. A request of the client's own for each of them would cost a goroutine, a timer
// and a channel, which in batches is more than the rest of what this package does.
type confirmer struct {
	conn  *nats.Conn
	limit time.Duration
	inbox string
	sub   *nats.Subscription

	mu     sync.Mutex
	last   uint64
	open   map[uint64]func(error)
	due    []deadline // in the order in which they were sent, and so in that of their time
	timer  *time.Timer
	closed bool
}

type deadline struct {
	number uint64
	at     time.Time
}

func newConfirmer(conn *nats.Conn, limit time.Duration) (*confirmer, error) {
	c := &confirmer{conn: conn, limit: limit, inbox: conn.NewInbox() + ".", open: map[uint64]func(error){}}
	sub, err := conn.Subscribe(c.inbox+"*", c.hear)
	if err != nil {
		return nil, fmt.Errorf("listen for confirmations: %w", err)
	}
	c.sub = sub
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(limit, c.expire)
	return c, nil
}

// send answers a message and calls done once: with nil when the server has confirmed it, with an
// error when it has not within the limit. While the connection is away the answer waits in the client's
// buffer; it may arrive after the limit, which does no harm.
func (c *confirmer) send(reply string, answer []byte, done func(error)) {
	c.mu.Lock()
	c.last++
	number := c.last
	c.open[number] = done
	c.trim()
	c.due = append(c.due, deadline{number, time.Now().Add(c.limit)})
	c.mu.Unlock()
	if err := c.conn.PublishRequest(reply, c.inbox+strconv.FormatUint(number, 36), answer); err != nil {
		c.settle(number, err)
	}
}

var errNobody = errors.New("the server does not know the message's consumer any more")

func (c *confirmer) hear(m *nats.Msg) {
	number, err := strconv.ParseUint(m.Subject[len(c.inbox):], 36, 64)
	if err != nil {
		return // nobody but the server knows the inbox
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		c.settle(number, errNobody)
		return
	}
	c.settle(number, nil)
}

func (c *confirmer) settle(number uint64, err error) {
	c.mu.Lock()
	done := c.open[number]
	delete(c.open, number)
	c.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// trim forgets the deadlines of what has been confirmed, as far as they come first.
func (c *confirmer) trim() {
	for len(c.due) > 0 && c.open[c.due[0].number] == nil {
		c.due = c.due[1:]
	}
}

// expire gives up what was not confirmed in time.
func (c *confirmer) expire() {
	for _, done := range c.late(time.Now()) {
		done(context.DeadlineExceeded)
	}
}

// late takes out what has passed its deadline, and sets the timer to the next one.
func (c *confirmer) late(now time.Time) (late []func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	for c.trim(); len(c.due) > 0 && !c.due[0].at.After(now); c.trim() {
		number := c.due[0].number
		late = append(late, c.open[number])
		delete(c.open, number)
	}
	wait := c.limit
	if len(c.due) > 0 {
		wait = c.due[0].at.Sub(now)
	}
	c.timer.Reset(wait)
	return late
}

// close is called when nothing is open any more.
func (c *confirmer) close() {
	c.mu.Lock()
	c.closed = true
	c.timer.Stop()
	c.mu.Unlock()
	_ = c.sub.Unsubscribe() // fails where the connection is closed, and then it is gone as well
}
