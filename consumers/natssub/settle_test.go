package natssub_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
)

func TestMessagesAreProcessedAndAcknowledged(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(500)...)
	p := &processor{}
	r := consume(t, js, p)
	settled(t, js)
	r.stop()

	got := p.got()
	slices.Sort(got)
	want := numbered(500)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("processed %d messages, some lost or twice", len(got))
	}
}

func TestOneHandlerKeepsTheStreamsOrder(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(300)...)
	p := &processor{}
	r := consume(t, js, p, natssub.WithConcurrency(1), natssub.WithPrefetch(7))
	settled(t, js)
	r.stop()
	if got := p.got(); !slices.Equal(got, numbered(300)) {
		t.Errorf("processed out of order: %v", got)
	}
}

func TestAMessageIsAcknowledgedOnlyOnceItIsSettled(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	running, finish := make(chan struct{}), make(chan struct{})
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		running <- struct{}{}
		<-finish
		return applied
	}}
	r := consume(t, js, p)
	receive(t, running)
	if i := info(t, js); i.NumAckPending != 1 || i.AckFloor.Stream != 0 {
		t.Errorf("while the handler runs: %d pending, acknowledged up to %d; want 1 and 0", i.NumAckPending, i.AckFloor.Stream)
	}
	close(finish)
	settled(t, js)
	r.stop()
}

func TestHandlersRunConcurrently(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(4)...)
	var barrier sync.WaitGroup
	barrier.Add(4)
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		barrier.Done()
		barrier.Wait() // Passes only when all four are here at once.
		return applied
	}}
	r := consume(t, js, p, natssub.WithConcurrency(4))
	settled(t, js)
	r.stop()
}

func TestASlowHandlerHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(100)...)
	finish := make(chan struct{})
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "1" {
			<-finish
		}
		return applied
	}}
	r := consume(t, js, p, natssub.WithConcurrency(2))
	eventually(t, "all but the slow one acknowledged", func() bool {
		i := info(t, js)
		return i.Delivered.Stream == 100 && i.NumAckPending == 1
	})
	close(finish)
	settled(t, js)
	r.stop()
}

func TestADuplicateIsAcknowledged(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Duplicate}
	}}
	r := consume(t, js, p)
	settled(t, js)
	r.stop()
	if n := len(p.got()); n != 1 {
		t.Errorf("processed %d times, want once", n)
	}
}
