package kafkapub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

var (
	_ outbox.Publisher = (*Publisher)(nil)
	_ outbox.Validator = (*Publisher)(nil)
)

// Publisher publishes events through one kafka.Writer. It is safe for concurrent use.
type Publisher struct {
	w     *kafka.Writer
	limit time.Duration
	grace time.Duration

	mu     sync.Mutex
	lanes  map[string]*lane // By topic, only those that have something to do.
	closed bool
	active sync.WaitGroup // One for each lane.
}

// Option is an option of [New].
type Option interface{ apply(*Publisher) }

type optionFunc func(*Publisher)

func (f optionFunc) apply(p *Publisher) { f(p) }

// WithLimit bounds one call of Publish. A write that the Writer has not finished by then
// is reported as unknown. The default, 35 seconds, leaves room for the three attempts of
// a Writer from [NewWriter]; give more where the Writer may try longer, or events will be
// called unreached that are still on their way.
func WithLimit(d time.Duration) Option { return optionFunc(func(p *Publisher) { p.limit = d }) }

// WithGrace bounds how long Publish still waits for a write that is under way when its
// context ends. The default is 5 seconds; the limit of the call holds as well. The answer saves a copy,
// the waiting delays a shutdown.
func WithGrace(d time.Duration) Option { return optionFunc(func(p *Publisher) { p.grace = d }) }

// New returns a publisher that writes with w, which must not be used or changed by anybody
// else from now on. A Writer that could lose an event or the order of a key is refused;
// [NewWriter] makes a good one. Nothing is dialled here.
func New(w *kafka.Writer, opts ...Option) (*Publisher, error) {
	p := &Publisher{w: w, limit: defaultLimit, grace: defaultGrace, lanes: make(map[string]*lane)}
	for _, o := range opts {
		o.apply(p)
	}
	if err := checkWriter(w); err != nil {
		return nil, fmt.Errorf("kafkapub: new: %w", err)
	}
	if p.limit <= 0 || p.grace < 0 {
		return nil, fmt.Errorf("kafkapub: new: the limit is %s and the grace %s: the one must be above zero, the other not below", p.limit, p.grace)
	}
	return p, nil
}

// Publish implements [outbox.Publisher].
func (p *Publisher) Publish(ctx context.Context, events []store.Event) []error {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.limit)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, p.limit)
	defer cancel()
	pub := newPublication(p, events)
	for pub.next(ctx) {
		p.enqueue(pub.calls)
		if !settled(ctx, pub.calls) {
			p.end(pub.calls)
			grace, cancel := context.WithTimeout(limit, p.grace)
			settled(grace, pub.calls)
			cancel()
		}
		pub.collect()
	}
	return pub.result()
}

func (p *Publisher) enqueue(calls []*call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range calls {
		if p.closed {
			c.end(fmt.Errorf("kafkapub: the publisher is closed: %w", outbox.ErrNotSent))
			continue
		}
		topic := c.items[0].msg.Topic
		l := p.lanes[topic]
		if l == nil {
			l = new(lane)
			p.lanes[topic] = l
			p.active.Go(func() { p.drive(topic, l) })
		}
		for _, it := range c.items {
			l.join(it)
		}
		l.queue = append(l.queue, c)
	}
}

// settled waits for all calls and reports false when ctx ends first.
func settled(ctx context.Context, calls []*call) bool {
	for _, c := range calls {
		select {
		case <-c.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// end sees to it that nothing more of these calls is begun.
func (p *Publisher) end(calls []*call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range calls {
		c.end(outbox.ErrNotSent)
	}
}

// drive writes chunk after chunk for one topic until there is nothing left.
func (p *Publisher) drive(topic string, l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		chunk := l.take(batchSize(p.w), batchBytes(p.w))
		if len(chunk) == 0 {
			delete(p.lanes, topic)
			return
		}
		p.mu.Unlock()
		p.write(chunk)
		p.mu.Lock()
		l.running = nil
	}
}

// Close closes the Writer, which first finishes what is under way, and waits for that
// until ctx ends; then it returns an error and the Writer goes on alone. Publish sends
// nothing from here on. What is still unconfirmed stays in the outbox.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	done := make(chan error, 1)
	// kafka-go offers no way to abandon a Writer, so this goroutine lives as long as the
	// Writer does.
	go func() {
		err := p.w.Close()
		p.active.Wait()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("kafkapub: close: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kafkapub: close: writes are still under way: %w", errors.Join(ctx.Err(), context.Cause(ctx)))
	}
}
