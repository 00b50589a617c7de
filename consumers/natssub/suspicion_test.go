package natssub_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// begun are the starts that stand in a store that counts, of all messages.
func (c *counts) begun() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, by := range c.starts {
		n += len(by)
	}
	return n
}

// suspect makes a stream with one message that has vanished as often.
func suspect(t *testing.T, vanished int) jetstream.JetStream {
	t.Helper()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	vanish(t, js, 1, vanished)
	return js
}

func consumeSuspect(t *testing.T, js jetstream.JetStream, p dedup.Processor, opts ...natssub.Option) *running {
	t.Helper()
	return consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p, append(opts, quick)...)
}

// Deployments, outages and lost connections raise the server's count as well.
func TestDeliveriesAloneBuryNothingWhereStartsAreCounted(t *testing.T) {
	t.Parallel()
	js := suspect(t, 6) // one more than without a store that counts
	c := &counts{spent: map[string]int{}}
	p := &counting{counts: c}
	p.process = func(context.Context, dedup.Message) dedup.Result {
		if n := c.begun(); n != 1 {
			t.Errorf("%d starts stand while the message runs, want 1", n)
		}
		return applied
	}
	r := consumeSuspect(t, js, p)
	settled(t, js)
	r.stop()
	if len(p.got()) != 1 || p.buriedCount() != 0 || c.begun() != 0 {
		t.Errorf("%d runs, %d buried, %d starts left; want one run", len(p.got()), p.buriedCount(), c.begun())
	}
}

// A handler that does not come back is all that is left of a process that ended over its message.
func TestAMessageThatNobodyComesBackFromIsBuriedAfterItsThirdStart(t *testing.T) {
	t.Parallel()
	js := suspect(t, 2)
	c := &counts{spent: map[string]int{}}
	over := make(chan struct{})
	var ended atomic.Int64
	for n := range 3 {
		deadly := &counting{counts: c}
		running := make(chan struct{}, 10)
		deadly.process = func(context.Context, dedup.Message) dedup.Result {
			running <- struct{}{}
			<-over
			ended.Add(1)
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: context.Canceled}
		}
		r := consumeSuspect(t, js, deadly, natssub.WithDrain(0))
		receive(t, running)
		r.cancel()
		if err := r.wait(); !errors.Is(err, natssub.ErrNotClean) {
			t.Errorf("Run: %v", err)
		}
		if c.begun() != n+1 {
			t.Errorf("%d starts after %d processes", c.begun(), n+1)
		}
	}
	p := &counting{counts: c}
	r := consumeSuspect(t, js, p)
	settled(t, js)
	r.stop()
	if len(p.got()) != 0 || p.buriedCount() != 1 {
		t.Fatalf("%d runs, %d buried; want none and one", len(p.got()), p.buriedCount())
	}
	if reason := p.reason[0].Error(); !strings.Contains(reason, "begun 3 times") || p.buried[0].Attempt != 3 {
		t.Errorf("buried after %d attempts: %s", p.buried[0].Attempt, reason)
	}
	if c.begun() != 0 {
		t.Errorf("%d starts are still counted", c.begun())
	}
	close(over)
	eventually(t, "the end of all handlers", func() bool { return ended.Load() == 3 })
}

func TestAnyResultTakesTheStartBack(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]dedup.Result{
		"busy":    failed(store.FaultBusy, "busy"),
		"unknown": {Outcome: dedup.Unknown, Fault: store.FaultConflict, Err: errors.New("no answer")},
		"outage":  failed(store.FaultOutage, "no store"),
		"failed":  {Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Hour, errors.New("bad"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := suspect(t, 2)
			c := &counts{spent: map[string]int{}}
			p := &counting{counts: c}
			runs := make(chan int, 100)
			p.process = func(context.Context, dedup.Message) dedup.Result {
				runs <- c.begun()
				return result
			}
			r := consumeSuspect(t, js, p)
			if n := receive(t, runs); n != 1 {
				t.Errorf("%d starts while it runs", n)
			}
			eventually(t, "no start", func() bool { return c.begun() == 0 })
			r.stop()
			if c.begun() != 0 {
				t.Errorf("%d starts after the end", c.begun())
			}
		})
	}
}

func TestAHandlerThatTheEndCancelsHasNotEndedTheProcess(t *testing.T) {
	t.Parallel()
	js := suspect(t, 2)
	c := &counts{spent: map[string]int{}}
	p, running, _ := blocker()
	guard := &counting{counts: c}
	guard.process = p.process
	r := consumeSuspect(t, js, guard, natssub.WithDrain(0))
	receive(t, running)
	r.cancel()
	if err := r.wait(); !errors.Is(err, natssub.ErrNotClean) {
		t.Errorf("Run: %v", err)
	}
	if c.begun() != 0 {
		t.Errorf("%d starts are left", c.begun())
	}
}

func TestASuspectDoesNotRunBeforeItsStartIsCounted(t *testing.T) {
	t.Parallel()
	js := suspect(t, 2)
	c := &counts{spent: map[string]int{}, down: true}
	p := &counting{counts: c}
	r := consumeSuspect(t, js, p)
	asked := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.calls
	}
	eventually(t, "a few tries", func() bool { return asked() > 3 })
	if got := p.got(); len(got) > 0 {
		t.Errorf("processed %v", got)
	}
	c.mu.Lock()
	c.down = false
	c.mu.Unlock()
	settled(t, js)
	r.stop()
	if len(p.got()) != 1 || p.buriedCount() != 0 || c.begun() != 0 {
		t.Errorf("%d runs, %d buried, %d starts left; want one run", len(p.got()), p.buriedCount(), c.begun())
	}
}

// The server's count is all there is where no starts are counted.
func TestAMessageThatEndsEveryProcessIsBuriedBeforeItRuns(t *testing.T) {
	t.Parallel()
	js := suspect(t, 5)
	p := &processor{}
	r := consumeSuspect(t, js, p)
	settled(t, js)
	r.stop()
	if len(p.got()) != 0 || p.buriedCount() != 1 {
		t.Fatalf("%d runs, %d buried; want none and one", len(p.got()), p.buriedCount())
	}
	if !strings.Contains(p.reason[0].Error(), "5 had no result") {
		t.Errorf("reason: %v", p.reason[0])
	}
}
