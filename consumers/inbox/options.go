package inbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
)

// WriterOption configures [NewWriter].
type WriterOption interface {
	applyWriter(*writerConfig) error
}

// PublisherOption configures [NewPublisher].
type PublisherOption interface{ applyPublisher(*Publisher) error }

// Option configures [New].
type Option interface{ apply(*config) error }

type writerConfig struct {
	order func(dedup.Message) []byte
	wake  func()
}

type config struct {
	limit  time.Duration
	calls  int
	log    *slog.Logger
	writer []WriterOption
	intake []dedup.TxOption
	relay  []outbox.RelayOption
}

type writerOption func(*writerConfig) error

func (f writerOption) applyWriter(c *writerConfig) error { return f(c) }

type option func(*config) error

func (f option) apply(c *config) error { return f(c) }

// OrderOption is an option of both [NewWriter] and [New].
type OrderOption struct{ order func(dedup.Message) []byte }

// WithOrder names the ordering key of a message: messages with one key are worked on one after
// another, in the order in which they were kept. Nil or empty means that it has none. The default
// is [dedup.OrderByKey], the broker's own key, which NATS and webhooks do not have. The function
// must be pure, and stay the same while messages are kept. Order is that of the commits of the
// intake, so its consumer must not overtake within a key.
func WithOrder(order func(m dedup.Message) []byte) OrderOption { return OrderOption{order} }

func (o OrderOption) applyWriter(c *writerConfig) error {
	if o.order == nil {
		return errors.New("WithOrder: the function is nil: return the ordering key, or nil for none")
	}
	c.order = o.order
	return nil
}

func (o OrderOption) apply(c *config) error {
	c.writer = append(c.writer, o)
	return nil
}

// WithWake is called after the commit of messages that were kept: pass the Wake method of
// the relay in this process, and the work begins at once. The default is nothing, and the
// relay finds the messages at its next poll. f must not block.
func WithWake(f func()) WriterOption {
	return writerOption(func(c *writerConfig) error {
		if f == nil {
			return errors.New("WithWake: the function is nil; leave the option out where no relay runs in this process")
		}
		c.wake = f
		return nil
	})
}

// LimitOption is an option of both [NewPublisher] and [New].
type LimitOption struct{ limit time.Duration }

// WithLimit bounds the work of one message. Past it the handler's context ends, its transaction is
// rolled back, and the message has failed an attempt. The default is five minutes with [New],
// and none with [NewPublisher], whose relay then needs outbox.WithPublishTimeout above it by
// a few seconds. Choose it well above what the work takes: a stall of the database counts.
func WithLimit(limit time.Duration) LimitOption { return LimitOption{limit} }

func (o LimitOption) check() error {
	if o.limit <= 0 {
		return fmt.Errorf("WithLimit(%s): it must be above zero", o.limit)
	}
	return nil
}

func (o LimitOption) applyPublisher(p *Publisher) error {
	p.limit = o.limit
	return o.check()
}

func (o LimitOption) apply(c *config) error {
	c.limit = o.limit
	return o.check()
}

// LoggerOption is an option of both [NewPublisher] and [New].
type LoggerOption struct{ log *slog.Logger }

// WithLogger is where is said what a person should know: a store that is not set up, work that is
// cut short, and with [New] what the relay says. Payloads are never logged. The default is nowhere.
func WithLogger(l *slog.Logger) LoggerOption { return LoggerOption{l} }

func (o LoggerOption) check() error {
	if o.log == nil {
		return errors.New("WithLogger: the logger is nil; leave the option out for none")
	}
	return nil
}

func (o LoggerOption) applyPublisher(p *Publisher) error {
	p.log = o.log
	return o.check()
}

func (o LoggerOption) apply(c *config) error {
	c.log = o.log
	return o.check()
}

// WithConcurrency is how many messages are worked on at the same time in this process, between 1 and 256. The
// default is 4. Each takes a connection of the pool for as long as it takes.
func WithConcurrency(n int) Option {
	return option(func(c *config) error {
		if n < 1 || n > 256 {
			return fmt.Errorf("WithConcurrency(%d): between 1 and 256", n)
		}
		c.calls = n
		return nil
	})
}

// WithIntake gives options to the guard that keeps the messages, such as [dedup.WithFingerprint].
func WithIntake(opts ...dedup.TxOption) Option {
	return option(func(c *config) error {
		c.intake = append(c.intake, opts...)
		return nil
	})
}

// WithRelay gives options to the relay: retries, drain, lease, poll. Its calls and its publish
// timeout follow from [WithConcurrency] and [WithLimit], and what is given here for them has
// no effect.
func WithRelay(opts ...outbox.RelayOption) Option {
	return option(func(c *config) error {
		c.relay = append(c.relay, opts...)
		return nil
	})
}
