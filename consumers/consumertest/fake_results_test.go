package consumertest_test

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

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
		if r.Fault == store.FaultSetup && c.lie != "buries without end" {
			c.stop(r.Err)
			return
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
