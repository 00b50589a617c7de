package natssub

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// Option is a setting of [New] and [Bind].
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

// config is what the options set. Lanes and prefetch may be left to settle.
type config struct {
	lanes    int
	lanesSet bool
	ordered  bool

	orderBy    func(dedup.Message) []byte
	orderBySet bool

	batched bool
	batch   int
	linger  time.Duration

	prefetch    int
	prefetchSet bool

	policy   consumers.Policy
	drain    time.Duration
	ackLimit time.Duration
	buryless bool

	requireKeep bool
	log         *slog.Logger
}

// WithConcurrency runs n handlers at a time; the default is 8, or 2 with [WithBatch]. Each
// needs a database connection of its own while it runs. There is no order between handlers.
// With 1, messages are handled in the order in which the server delivers them: that of the
// stream as long as nothing fails, is delivered again or goes to another process.
func WithConcurrency(n int) Option {
	return option(func(c *config) { c.lanes, c.lanesSet = n, true })
}

// WithOrder runs one handler and makes a message that failed wait at its head, with all
// others behind it, until it is settled or buried, instead of giving it back to the server
// and going on. It keeps the stream's order in this process. Only MaxAckPending 1 on the
// server, which needs no option here, keeps it over crashes and between processes: see the
// package comment.
func WithOrder() Option { return option(func(c *config) { c.ordered = true }) }

// WithBatch hands up to size messages at a time to the processor, which commits together
// what can be committed together; it must implement [dedup.BatchProcessor]. A batch that is
// not full is processed once its oldest message has waited for linger; 0 takes what is
// there. Without this option each message has a transaction of its own.
//
// Size should be well below the durable's MaxAckPending (1000 by default), and the time
// that linger adds is time that every message of a quiet stream waits.
func WithBatch(size int, linger time.Duration) Option {
	return option(func(c *config) { c.batched, c.batch, c.linger = true, size, linger })
}

// WithPrefetch bounds the messages in hand: those fetched and waiting, for their next try
// too, those that handlers work on, and those whose acknowledgement is on its way. The default
// is 16 for each handler, or two batches. More helps where the round trip to the server is long, or
// where many messages wait for others to release their keys; fewer share the work more evenly
// between processes and need less memory. It is lowered to MaxAckPending where that is less.
func WithPrefetch(n int) Option {
	return option(func(c *config) { c.prefetch, c.prefetchSet = n, true })
}

// WithPolicy decides how often and after which delays a failed message is tried again; the
// default is [consumers.DefaultPolicy].
func WithPolicy(p consumers.Policy) Option { return option(func(c *config) { c.policy = p }) }

// WithDrain is how long the running handlers may go on after Run was asked to end; the
// default is 10 s. Then their contexts end, which rolls back what they did. Half of the limit
// again, at least a second and at most five, is left for that, after which Run goes on
// without them. What the server has to confirm then is waited for as long as [WithAckLimit] says, in
// all. Keep the sum of the three below what the platform allows between SIGTERM and SIGKILL.
func WithDrain(limit time.Duration) Option { return option(func(c *config) { c.drain = limit }) }

// WithAckLimit is how long the server's confirmation of an acknowledgement is waited for; the
// default is 5 s. Past it there is a warning and, after the ack wait, a redelivery that the
// mark answers. It is also part of the time that Run takes to end: see [WithDrain].
func WithAckLimit(limit time.Duration) Option {
	return option(func(c *config) { c.ackLimit = limit })
}

// WithoutDeadLetters makes Run return with an error where a message would be given up. The
// message is given back, so the next process to get it ends as well until somebody mends the
// cause. It is required when the processor is no [dedup.Burier].
func WithoutDeadLetters() Option { return option(func(c *config) { c.buryless = true }) }

// WithLogger sets the logger; the default discards. Retries and unconfirmed acknowledgements
// are warnings, messages that are given up are errors.
func WithLogger(l *slog.Logger) Option { return option(func(c *config) { c.log = l }) }

const (
	defaultLanes      = 8
	defaultBatchLanes = 2
	prefetchPerLane   = 16
)

func defaults() config {
	return config{
		policy:   consumers.DefaultPolicy(),
		drain:    10 * time.Second,
		ackLimit: 5 * time.Second,
		log:      slog.New(slog.DiscardHandler),
	}
}

// settle fills in what depends on other settings and checks the whole.
func (c *config) settle(p dedup.Processor) error {
	if !c.batched {
		c.batch = 1
	}
	switch {
	case c.ordered && c.lanesSet && c.lanes > 1:
		return fmt.Errorf("WithConcurrency(%d) and WithOrder exclude each other: order needs one handler, so leave out one of them", c.lanes)
	case c.lanesSet:
	case c.ordered:
		c.lanes = 1
	case c.batched:
		c.lanes = defaultBatchLanes
	default:
		c.lanes = defaultLanes
	}
	if !c.prefetchSet {
		c.prefetch = prefetchPerLane * c.lanes
		if c.batched {
			c.prefetch = 2 * c.batch * c.lanes
		}
	}
	if err := c.policy.Validate(); err != nil {
		return fmt.Errorf("WithPolicy: %w", err)
	}
	switch {
	case c.orderBySet && c.orderBy == nil:
		return fmt.Errorf("WithOrderBy(nil): say what the key is, or leave the option out")
	case c.orderBySet && c.ordered:
		return fmt.Errorf("WithOrder and WithOrderBy exclude each other: the first keeps the order of all messages, so leave out one of them")
	case c.lanes < 1:
		return fmt.Errorf("WithConcurrency(%d): at least one handler has to run", c.lanes)
	case c.batch < 1:
		return fmt.Errorf("WithBatch(%d, %s): a batch holds at least one message", c.batch, c.linger)
	case c.linger < 0:
		return fmt.Errorf("WithBatch(%d, %s): linger is 0 (take what is there) or more", c.batch, c.linger)
	case c.prefetch < c.lanes*c.batch:
		return fmt.Errorf("WithPrefetch(%d): %d handlers with %d messages each need at least %d",
			c.prefetch, c.lanes, c.batch, c.lanes*c.batch)
	case c.drain < 0:
		return fmt.Errorf("WithDrain(%s): it is 0 (cancel at once) or more", c.drain)
	case c.ackLimit <= 0:
		return fmt.Errorf("WithAckLimit(%s): it must be above zero, or nothing is ever confirmed", c.ackLimit)
	case c.log == nil:
		return fmt.Errorf("WithLogger(nil): leave the option out to log nothing")
	}
	if _, ok := p.(dedup.BatchProcessor); c.batched && !ok {
		return fmt.Errorf("WithBatch: the processor, a %T, does not implement dedup.BatchProcessor: leave the option out", p)
	}
	return nil
}

// rollbackLimit is what handlers are left with after their contexts have ended.
func (c *config) rollbackLimit() time.Duration {
	return min(max(c.drain/2, time.Second), 5*time.Second)
}
