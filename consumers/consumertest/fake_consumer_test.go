package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/consumertest"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
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
	if order == consumertest.InOrder && c.lie != "several at a time" || c.lie == "one lane" {
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

func (c *consumer) handle(batch []*stored) {
	results := c.results(batch)
	if len(results) == 0 && c.lie == "no results are good results" {
		results = []dedup.Result{{Outcome: dedup.Applied}}
	}
	if len(results) > len(batch) && c.lie == "too many results are enough" {
		results = results[:len(batch)]
	}
	if len(results) == 0 || len(results) > len(batch) {
		c.stop(fmt.Errorf("%d results for %d messages", len(results), len(batch)))
		return
	}
	for i, r := range results {
		switch {
		case r.Outcome.Settled():
			c.settled(batch[i], r)
			continue
		case c.lie == "reads all results":
			c.decide(batch[i], r)
			continue
		case c.lie == "one failed batch is done" && i > 0:
			c.ack(batch[i:]...)
			return
		}
		c.decide(batch[i], r)
		batch = batch[i+1:]
		break
	}
	// What has no result is handed over again.
	c.b.change(func() {
		for _, s := range batch {
			if s.holder == c && !s.done {
				s.holder = nil
			}
		}
	})
}

func (c *consumer) settled(s *stored, r dedup.Result) {
	if c.lie == "duplicates come again" && r.Outcome == dedup.Duplicate || c.lie == "the parked come again" && r.Outcome == dedup.Parked {
		return
	}
	c.ack(s)
}

func (c *consumer) results(batch []*stored) []dedup.Result {
	ms := make([]dedup.Message, len(batch))
	for i, s := range batch {
		ms[i] = c.told(s)
	}
	switch p := c.p.(type) {
	case dedup.BatchProcessor:
		if c.s.Batch > 0 {
			return p.ProcessBatch(c.handling, ms)
		}
	}
	if p, ok := c.p.(dedup.EachProcessor); ok {
		return p.ProcessEach(c.handling, ms)
	}
	return []dedup.Result{c.p.Process(c.handling, ms[0])}
}

// told is what the handler is told of a message.
func (c *consumer) told(s *stored) dedup.Message {
	m := s.message()
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Attempt = c.spent[s] + 1
	switch c.lie {
	case "every attempt is the first":
		m.Attempt = 1
	case "every run is an attempt":
		m.Attempt = c.runs[s]
	case "headers in a map":
		last := map[string]dedup.Header{}
		for _, h := range m.Headers {
			last[h.Key] = h
		}
		m.Headers = nil
		for _, h := range last {
			m.Headers = append(m.Headers, h)
		}
	case "empty bodies are none":
		if len(m.Body) == 0 {
			m.Body = nil
		}
	case "keys are text":
		m.Key = []byte(fmt.Sprintf("%q", m.Key))
	case "one time for all":
		m.Position.Time = time.Unix(1, 0)
	case "offsets fall":
		m.Position.Offset = -m.Position.Offset
	case "the time of delivery":
		m.Position.Time = time.Now()
	}
	return m
}

func (c *consumer) decide(s *stored, r dedup.Result) {
	c.mu.Lock()
	c.streak[s]++
	d := c.s.Policy.Decide(r, c.spent[s], c.streak[s])
	if d.Spent || c.lie == "an outage spends an attempt" {
		c.spent[s]++
		if c.spent[s] >= c.s.Policy.MaxAttempts && c.lie == "an outage spends an attempt" {
			d.Action = consumers.Bury
		}
	}
	if c.lie == "buries early" && c.spent[s] == c.s.Policy.MaxAttempts-1 {
		d.Action = consumers.Bury
	}
	spent := c.spent[s]
	c.mu.Unlock()
	switch {
	case c.lie == "a refusal is a failure" && (r.Outcome == dedup.Mismatched || r.Outcome == dedup.Late):
		d = consumers.Decision{Action: consumers.Retry, After: time.Millisecond}
	case c.lie == "acknowledges what failed" && r.Outcome == dedup.Failed, c.lie == "acknowledges the unknown" && r.Outcome == dedup.Unknown:
		c.ack(s)
		return
	case c.lie == "setup is an outage" && r.Fault == store.FaultSetup, c.lie == "waits for a person to cancel" && r.Fault == store.FaultCanceled,
		c.lie == "nothing is hopeless" && d.Action == consumers.Bury && spent < c.s.Policy.MaxAttempts:
		d = consumers.Decision{Action: consumers.Retry, After: time.Millisecond}
	}
	if _, asked := dedup.RetryDelay(r.Err); asked && c.lie == "does not hear the handler" {
		d.After = time.Millisecond
	}
	if c.lie == "tries at once" {
		d.After = 0
	}
	switch d.Action {
	case consumers.Retry:
		c.b.change(func() { s.due = time.Now().Add(d.After); s.holder = nil })
		if c.lie == "waits for its delays" {
			time.Sleep(d.After)
		}
	case consumers.Bury:
		c.bury(s, spent, r.Err)
	default:
		if r.Fault != store.FaultCanceled || c.handling.Err() == nil {
			c.stop(r.Err)
		}
	}
}

func (c *consumer) bury(s *stored, spent int, reason error) {
	burier, ok := c.p.(dedup.Burier)
	if !ok {
		if c.lie == "drops what it cannot bury" {
			c.ack(s)
		}
		c.stop(fmt.Errorf("no dead letters: %w", reason))
		return
	}
	if c.lie == "acknowledges before it buries" {
		c.ack(s)
	}
	m := c.told(s)
	m.Attempt = spent
	for c.live.Err() == nil {
		r := burier.Bury(c.handling, m, reason)
		if r.Outcome == dedup.Duplicate && c.lie == "buries the done again" {
			continue
		}
		if r.Outcome.Settled() || c.lie == "a burial cannot fail" {
			c.ack(s)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// ack tells the broker.
func (c *consumer) ack(ss ...*stored) {
	if !c.lies("the dead speak") && !c.reach() || c.gone.Load() && !c.lies("acknowledges after the end") && !c.lies("the dead speak") {
		return
	}
	if c.lie == "acknowledges what is fetched" {
		ss = append(ss, c.b.log[:min(len(c.b.log), ss[0].offset+6)]...)
	}
	c.b.change(func() {
		for _, s := range ss {
			s.done, s.holder = true, nil
		}
	})
}

func (c *consumer) lies(how string) bool { return c.lie == how }

func (c *consumer) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = make(chan struct{})
}

func (c *consumer) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.frozen)
	c.frozen = nil
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
