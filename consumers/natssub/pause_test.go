package natssub_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// startNew is consume for tests that need the consumer itself.
func startNew(t *testing.T, js jetstream.JetStream, p dedup.Processor, opts ...natssub.Option) (*natssub.Consumer, *running) {
	t.Helper()
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c, start(t, c)
}

func TestPauseLeavesToOthersWhatHasNotBegunAndLetsTheRestFinish(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, numbered(20)...)
	p, begun, finish := blocker()
	c, r := startNew(t, js, p, natssub.WithConcurrency(2), natssub.WithPrefetch(12))
	receive(t, begun)
	receive(t, begun)
	eventually(t, "the hand full", func() bool { return info(t, js).NumAckPending >= 12 })
	c.Pause()
	c.Pause()
	if !c.Paused() {
		t.Error("it does not know that it is paused")
	}
	// The ack wait is 30 seconds: what another process gets sooner was given back.
	other := &processor{}
	o := consume(t, b.connect(), other)
	eventually(t, "everything else in the other process", func() bool { return len(other.got()) == 18 })
	finish <- struct{}{}
	finish <- struct{}{}
	settled(t, js)
	publish(t, js, "late")
	settled(t, js)
	o.stop()
	if got := p.got(); len(got) != 2 {
		t.Errorf("handled %v while paused", got)
	}
	publish(t, js, "later")
	c.Resume()
	if body := receive(t, begun); body != "later" || c.Paused() {
		t.Errorf("%s after it was resumed, paused: %t", body, c.Paused())
	}
	finish <- struct{}{}
	settled(t, js)
	r.stop()
}

func TestPauseBeforeRunHandsNothingOver(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, "a")
	p := &processor{}
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, p)
	if err != nil {
		t.Fatal(err)
	}
	c.Pause()
	r := start(t, c)
	eventually(t, "readiness", func() bool { return c.Ready() == nil })
	// Another process gets what there is: no request of this one stands at the server.
	other := &processor{}
	o := consume(t, b.connect(), other)
	settled(t, js)
	o.stop()
	if got := p.got(); len(got) > 0 || len(other.got()) != 1 {
		t.Errorf("handled %v while paused", got)
	}
	c.Resume()
	publish(t, js, "b")
	settled(t, js)
	if got := p.got(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("handled %v after it was resumed", got)
	}
	c.Pause()
	r.stop() // clean while it is paused
}

// A message that waits in hand for its next attempt, and everything behind it, goes elsewhere.
func TestPauseHoldsRetries(t *testing.T) {
	t.Parallel()
	for _, fault := range []store.Fault{store.FaultHandler, store.FaultOutage} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, "a", "b")
		failed := make(chan struct{}, 100)
		p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
			failed <- struct{}{}
			return dedup.Result{Outcome: dedup.Failed, Fault: fault, Err: dedup.RetryAfter(time.Hour, errors.New("bad"))}
		}}
		c, r := startNew(t, js, p, natssub.WithOrder())
		receive(t, failed)
		c.Pause()
		other := &processor{}
		o := consume(t, js, other)
		settled(t, js)
		o.stop()
		if got := other.got(); !slices.Contains(got, "a") || !slices.Contains(got, "b") || len(p.got()) != 1 {
			t.Errorf("%s: the other process handled %v, the paused one %v", fault, got, p.got())
		}
		r.stop()
	}
}

func TestPauseAndResumeOverAndOverLosesNothing(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(300)...)
	p := &batches{}
	c, r := startNew(t, js, p, natssub.WithPrefetch(20), natssub.WithConcurrency(2))
	for range 50 {
		c.Pause()
		c.Resume()
		time.Sleep(time.Millisecond)
	}
	settled(t, js) // what was lost would be pending for the whole ack wait
	r.stop()
	if i := info(t, js); i.NumRedelivered > 0 {
		t.Errorf("%d redelivered", i.NumRedelivered)
	}
	seen := map[string]int{}
	for _, body := range p.got() {
		seen[body]++
	}
	for body, n := range seen {
		if n > 1 {
			t.Errorf("%s handled %d times", body, n)
		}
	}
}
