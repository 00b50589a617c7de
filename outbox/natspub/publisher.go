package natspub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

var (
	_ outbox.Publisher = (*Publisher)(nil)
	_ outbox.Validator = (*Publisher)(nil)
)

// Publisher publishes events to JetStream. It is safe for concurrent use.
type Publisher struct {
	conn *nats.Conn
	js   jetstream.JetStream
	opts []jetstream.PublishOpt
}

type config struct {
	window  int
	ackWait time.Duration
	stream  string
}

// Option is an option of [New].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithWindow sets how many events may wait for their acknowledgement at one time, over all
// calls. The default is 512. More helps over long distances. It also is how many copies a
// lost connection can make.
func WithWindow(events int) Option { return optionFunc(func(c *config) { c.window = events }) }

// WithAckWait sets how long an acknowledgement is waited for. The default is 5 seconds. An
// event whose acknowledgement comes later is sent again, so less makes more copies.
func WithAckWait(d time.Duration) Option { return optionFunc(func(c *config) { c.ackWait = d }) }

// WithStream names the stream that must store the events. Without it any stream that
// listens on the subject will do, even one that somebody has added over it.
func WithStream(name string) Option { return optionFunc(func(c *config) { c.stream = name }) }

// New returns a publisher on the connection of js. The window and the time to wait for an
// acknowledgement are its own, whatever js was given. The publisher needs no closing:
// it ends with the connection, which stays yours. Nothing is sent here.
func New(js jetstream.JetStream, opts ...Option) (*Publisher, error) {
	c := config{window: 512, ackWait: 5 * time.Second}
	for _, o := range opts {
		o.apply(&c)
	}
	switch {
	case js == nil || js.Conn() == nil:
		return nil, errors.New("natspub: new: there is no connection: make js with jetstream.New")
	case c.window < 1:
		return nil, fmt.Errorf("natspub: new: the window is %d: at least one event must be allowed", c.window)
	case c.ackWait <= 0:
		return nil, fmt.Errorf("natspub: new: the time to wait for an acknowledgement is %s: it must be above zero", c.ackWait)
	}
	// A context of its own, because one without a timeout for asynchronous publishes, which
	// is the default, never forgets an acknowledgement that got lost.
	own, err := jetstream.New(js.Conn(),
		jetstream.WithPublishAsyncMaxPending(c.window),
		jetstream.WithPublishAsyncTimeout(c.ackWait))
	if err != nil {
		return nil, fmt.Errorf("natspub: new: %w", err)
	}
	p := &Publisher{conn: js.Conn(), js: own, opts: []jetstream.PublishOpt{
		// The relay tries again by itself. Trying here would make a subject without a
		// stream hold up the events beside it.
		jetstream.WithRetryAttempts(0),
		jetstream.WithStallWait(c.ackWait),
	}}
	if c.stream != "" {
		p.opts = append(p.opts, jetstream.WithExpectStream(c.stream))
	}
	return p, nil
}

// Publish implements [outbox.Publisher]. A call that waits for acknowledgements when ctx
// ends still waits for these.
func (p *Publisher) Publish(ctx context.Context, events []store.Event) []error {
	pub := newPublication(p, events)
	for pub.next() {
		pub.send(ctx)
		pub.await()
	}
	return pub.result()
}
