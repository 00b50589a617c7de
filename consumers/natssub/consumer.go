package natssub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/dedup"
)

// ErrNotClean is in the error of a Run that could not finish or give back all that it had in
// hand: a handler had to be cancelled or did not return at all, or the server did not
// confirm what was given back. Nothing is lost by it. What was not given back is delivered
// again when its ack wait ends, and the marks tell what had been done.
var ErrNotClean = errors.New("not everything in hand was finished or given back")

// Consumer processes the messages of one durable pull consumer. Make it with [New] or
// [Bind]; nothing happens before Run.
type Consumer struct {
	js      jetstream.JetStream
	stream  string
	durable string
	// create is nil where the durable must be there already.
	create    *jetstream.ConsumerConfig
	processor dedup.Processor
	// burier is nil without dead letters.
	burier dedup.Burier
	// counter is nil where attempts are counted in memory.
	counter dedup.Counter
	// starter is what this process is called there.
	starter string
	memory  *memory
	gate    gate
	health  health
	config

	running atomic.Bool
}

// New returns a consumer of the stream that creates the durable of cfg, or updates the one
// that is there, when Run begins. It never deletes it. Cfg needs a Durable name; leave
// AckPolicy, MaxDeliver and BackOff as they are by default (see the package comment for what
// else matters).
//
// The processor is usually a guard of package dedup. It must be able to bury, or the
// option [WithoutDeadLetters] says that it need not. One with a position fence is refused, because
// JetStream delivers out of order.
func New(js jetstream.JetStream, stream string, cfg jetstream.ConsumerConfig, p dedup.Processor, opts ...Option) (*Consumer, error) {
	c, err := newConsumer(js, stream, cfg.Durable, p, opts)
	if err != nil {
		return nil, err
	}
	if err := checkConfig(cfg, c.policy.MaxAttempts); err != nil {
		return nil, fmt.Errorf("natssub: consumer of stream %s: %w", stream, err)
	}
	c.create = &cfg
	return c, nil
}

// Bind returns a consumer of a durable that exists on the server and is managed elsewhere.
// Its settings are read, and checked like those given to [New], when Run begins.
func Bind(js jetstream.JetStream, stream, durable string, p dedup.Processor, opts ...Option) (*Consumer, error) {
	c, err := newConsumer(js, stream, durable, p, opts)
	if err != nil {
		return nil, err
	}
	if durable == "" {
		return nil, fmt.Errorf("natssub: consumer of stream %s: the durable's name is empty: name one that exists, or use New to create it", stream)
	}
	return c, nil
}

func newConsumer(js jetstream.JetStream, stream, durable string, p dedup.Processor, opts []Option) (*Consumer, error) {
	switch {
	case js == nil:
		return nil, errors.New("natssub: js is nil: make it with jetstream.New(nc)")
	case stream == "":
		return nil, errors.New("natssub: the stream's name is empty: name the stream that holds the messages")
	case p == nil:
		return nil, errors.New("natssub: the processor is nil: make a guard with dedup.NewTx")
	}
	if f, ok := p.(dedup.Fencer); ok && f.Fenced() {
		return nil, fmt.Errorf("natssub: the processor, a %T, has a position fence, which takes what comes out of order for done: "+
			"JetStream delivers again out of order, so make the guard without one", p)
	}
	cfg := defaults()
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("natssub: an option is nil: leave it out")
		}
		o.apply(&cfg)
	}
	if err := cfg.settle(p); err != nil {
		return nil, fmt.Errorf("natssub: %w", err)
	}
	c := &Consumer{js: js, stream: stream, durable: durable, processor: p, config: cfg, memory: newMemory(memorySize), counter: counter(p), starter: rand.Text()}
	c.log = cfg.log.With("stream", stream, "consumer", durable)
	if !cfg.buryless {
		c.burier, _ = p.(dedup.Burier)
		if c.burier == nil {
			return nil, fmt.Errorf("natssub: the processor, a %T, cannot bury a message that is given up: "+
				"use one that implements dedup.Burier, or say WithoutDeadLetters to do without", p)
		}
	}
	return c, nil
}

// Run fetches and processes messages until ctx ends, then stops fetching, gives back what
// has not begun, lets the running handlers finish (see [WithDrain]) and returns. It returns
// nil when all of that went well, and otherwise an error that holds [ErrNotClean].
//
// It returns earlier, after the same cleaning up, when going on makes no sense: the
// processor's check fails, the server cannot be reached at the start, the stream or the
// durable is not there, its settings cannot be worked with, [RequireKeep] is not met, the
// durable is deleted, the connection is closed for good, the processor says that a person is
// needed, or a message would have to be given up [WithoutDeadLetters]. A connection that is
// lost and found again is no reason; nor is a store that cannot be reached, for which it waits.
//
// The durable outlives Run. One Run at a time; it may be called again.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("natssub: Run is running: make another Consumer to run a second one, or raise WithConcurrency")
	}
	defer c.running.Store(false)
	defer c.health.awaits(errEnded)
	c.health.progressed()
	c.health.awaits(errUnchecked)
	if checker, ok := c.processor.(dedup.Checker); ok {
		if err := checker.Check(ctx); err != nil {
			return c.startErr(ctx, "check the processor", err)
		}
	}
	c.health.awaits(errUnattached)
	source, err := c.attach(ctx)
	if err != nil {
		return c.startErr(ctx, "attach", err)
	}
	t, warnings, err := c.terms(source.CachedInfo().Config)
	if err != nil {
		return c.startErr(ctx, "read the durable's settings", err)
	}
	if err := c.survey(ctx, source.CachedInfo()); err != nil {
		return c.startErr(ctx, "look at the stream", err)
	}
	for _, w := range warnings {
		c.log.Warn(w)
	}
	r := newRun(ctx, c, source, t)
	c.health.run.Store(r)
	defer c.health.run.Store(nil)
	c.health.awaits(nil)
	if err := r.work(ctx); err != nil {
		return fmt.Errorf("natssub: %s of stream %s: %w", c.durable, c.stream, err)
	}
	return nil
}

// startErr is nil when Run was asked to end while it was starting: nothing has begun.
func (c *Consumer) startErr(ctx context.Context, act string, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("natssub: %s: %s of stream %s: %w", act, c.durable, c.stream, err)
}
