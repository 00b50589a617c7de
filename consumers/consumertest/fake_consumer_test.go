package consumertest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/semel-dev/semel/consumers/consumertest"
	"github.com/semel-dev/semel/dedup"
)

var errNotClean = errors.New("not clean")

const overtime = 3 * time.Second

// consumer does what a consumer of a broker should, except for its lie.
type consumer struct {
	b     *broker
	p     dedup.Processor
	s     consumertest.Settings
	order consumertest.Order
	lie   string
	lanes int

	begun    time.Time
	until    int // the end of the log when Run began
	stop     context.CancelCauseFunc
	live     context.Context
	handling context.Context
	gone     atomic.Bool
	unclean  atomic.Bool
	extra    atomic.Int64 // turns after the end

	mu     sync.Mutex
	spent  map[*stored]int
	streak map[*stored]int
	runs   map[*stored]int
	frozen chan struct{} // closed when it thaws; nil while the network flows
	dead   bool
}

func openConsumer(b *broker, order consumertest.Order, p dedup.Processor, s consumertest.Settings) (*consumer, error) {
	if _, ok := p.(dedup.Burier); !ok && !s.WithoutDeadLetters && b.lie != "takes any processor" {
		return nil, errors.New("the processor cannot bury")
	}
	c := &consumer{b: b, p: p, s: s, order: order, lie: b.lie, lanes: 4, spent: map[*stored]int{}, streak: map[*stored]int{}, runs: map[*stored]int{}}
	if order == consumertest.InOrder && c.lie != "several at a time" || c.lie == "one lane" || c.lie == "one lane of many" {
		c.lanes = 1
	}
	return c, nil
}

func (c *consumer) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		if c.lie == "an ended context is an error" {
			return ctx.Err()
		}
		return nil
	}
	if ch, ok := c.p.(interface{ Check(context.Context) error }); ok && c.lie != "does not check" {
		if err := ch.Check(ctx); err != nil {
			return err
		}
	}
	c.b.mu.Lock()
	c.begun, c.until = time.Now(), len(c.b.log)
	up := c.b.up
	c.b.mu.Unlock()
	c.live, c.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.handling = handling
	defer context.AfterFunc(ctx, func() { c.stop(nil) })()
	if c.lie == "ends with the broker" {
		go func() {
			select {
			case <-up:
				c.stop(errors.New("connection lost"))
			case <-c.live.Done():
			}
		}()
	}
	if c.lie == "leaves a goroutine" {
		go time.Sleep(24 * time.Hour)
	}
	var lanes sync.WaitGroup
	for range c.lanes {
		lanes.Go(c.lane)
	}
	<-c.live.Done()
	c.drain(&lanes, cancel)
	c.gone.Store(true)
	if c.lie != "keeps what it holds" {
		c.b.release(c)
	}
	if c.lie == "takes its time" || c.lie == "waits for the network" && !c.reach() {
		time.Sleep(time.Hour)
	}
	cause := context.Cause(c.live)
	if cause == context.Canceled {
		cause = nil
	}
	if c.unclean.Load() && c.lie != "always clean" {
		return errors.Join(cause, errNotClean)
	}
	return cause
}

func (c *consumer) drain(lanes *sync.WaitGroup, cancel context.CancelFunc) {
	done := make(chan struct{})
	go func() { lanes.Wait(); close(done) }()
	limit := c.s.Drain
	switch c.lie {
	case "cancels at once":
		limit = 0
	case "waits for ever":
		limit = 100 * time.Hour
	}
	select {
	case <-done:
		return
	case <-time.After(limit):
	}
	c.unclean.Store(true)
	cancel()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func (c *consumer) lane() {
	for {
		batch := c.take()
		if batch == nil {
			return
		}
		c.handle(batch)
	}
}

// wants and replays say which messages are handed to this consumer at all.
func (c *consumer) wants(s *stored) bool {
	return c.lie != "reads the log once" || s.offset < c.until
}

func (c *consumer) replays(s *stored) bool {
	return c.lie == "begins at the beginning" && c.runs[s] == 0 && s.offset < c.until ||
		c.lie == "hands over twice" && c.runs[s] == 1
}

func (c *consumer) take() []*stored {
	size := 1
	if _, ok := c.p.(dedup.EachProcessor); ok {
		size = 8
	}
	if c.s.Batch > 0 {
		size = c.s.Batch
	}
	if c.lie == "small batches" {
		size = (size + 1) / 2
	}
	for c.live.Err() == nil || c.lie == "finishes everything" && c.extra.Add(1) < 200 {
		if !c.reach() {
			return nil
		}
		c.b.mu.Lock()
		c.mu.Lock()
		list, wait := c.b.ready(c)
		linger := c.s.Linger - time.Since(c.begun)
		if c.lie == "never lingers" {
			linger = 0
		}
		if c.lie == "lingers for ever" {
			linger = time.Hour
		}
		if len(list) > 0 && (c.s.Batch == 0 || len(list) >= size || linger <= 0) {
			list = list[:min(size, len(list))]
			for _, s := range list {
				s.holder = c
				c.runs[s]++
				s.done = s.done || c.lie == "acknowledges on arrival"
			}
			c.mu.Unlock()
			c.b.mu.Unlock()
			return list
		}
		if len(list) > 0 {
			wait = min(wait, linger)
		}
		changed := c.b.changed
		c.mu.Unlock()
		c.b.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(wait):
		case <-c.live.Done():
		}
	}
	return nil
}

// reach waits until the network carries something and tells whether it does.
func (c *consumer) reach() bool {
	c.mu.Lock()
	frozen, dead := c.frozen, c.dead
	c.mu.Unlock()
	if dead {
		<-c.live.Done()
		return false
	}
	if frozen == nil {
		return true
	}
	if c.lie == "ends with the network" {
		c.stop(errors.New("connection lost"))
	}
	select {
	case <-frozen:
		return true
	case <-c.live.Done():
		c.unclean.Store(true)
		return false
	}
}

func (c *consumer) lies(how string) bool { return c.lie == how }

func (c *consumer) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = make(chan struct{})
	time.AfterFunc(time.Second, func() { c.b.release(c) }) // it is taken for dead
}

func (c *consumer) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.frozen)
	c.frozen = nil
	if c.lie == "ends when it was dead" {
		c.stop(errors.New("no member of the group"))
	}
}

// kill: the broker gives what it held to others after a while.
func (c *consumer) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	if c.lie != "keeps what it holds" {
		time.AfterFunc(time.Second, func() { c.b.release(c) })
	}
}
