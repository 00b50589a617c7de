package kafkasub_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func TestShutdownLetsTheRunningHandlerFinishAndStartsNoOther(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 20)...)
	entered, goOn := make(chan struct{}), make(chan struct{})
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 3 {
			close(entered)
			<-goOn
			if ctx.Err() != nil {
				t.Error("the handler was cancelled within the drain limit")
			}
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), p))
	<-entered
	r.cancel()
	select {
	case <-r.ended:
		t.Fatal("Run returned while a handler was running")
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	r.stop(t)
	if got := p.seen(); !slices.Equal(got, numbered("m", 4)) {
		t.Errorf("handled %v, want nothing after the stop", got)
	}
	if got := committed(t, b, 0); got != 4 {
		t.Errorf("committed %d, want 4: the handler that finished counts", got)
	}
}

func TestShutdownCancelsAHandlerAtTheDrainLimit(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 5)...)
	entered := make(chan struct{})
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset < 2 {
			return applied
		}
		close(entered)
		<-ctx.Done()
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: ctx.Err()}
	})
	book, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), p, log, kafkasub.WithDrain(300*time.Millisecond)))
	<-entered
	began := time.Now()
	r.cancel()
	err := r.wait(t)
	if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("Run took %s to return", took)
	}
	if !errors.Is(err, kafkasub.ErrNotClean) || !strings.Contains(err.Error(), "orders/0 from offset 2 on did not finish within 300ms and was cancelled") {
		t.Errorf("Run = %v, want that it was not clean", err)
	}
	if book.has("ignores its cancelled context") {
		t.Error("the handler was not cancelled but left behind")
	}
	if got := committed(t, b, 0); got != 2 {
		t.Errorf("committed %d, want 2", got)
	}
	if got := p.seen(); len(got) != 3 {
		t.Errorf("handled %v after the cancellation", got)
	}
}

func TestShutdownLeavesAHandlerBehindThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, "m0", "hang")
	produce(t, b, 1, "other")
	entered, goOn, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "hang" {
			close(entered)
			<-goOn
			defer close(gone)
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithDrain(100*time.Millisecond)))
	<-entered
	untilCommitted(t, b, 1, 1)
	began := time.Now()
	r.cancel()
	err := r.wait(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Run took %s to return", took)
	}
	if !errors.Is(err, kafkasub.ErrNotClean) || !strings.Contains(err.Error(), "orders/0 from offset 1 on ignores its cancelled context") {
		t.Errorf("Run = %v, want that a handler still runs", err)
	}
	close(goOn)
	<-gone
	if got := committed(t, b, 0); got != 1 {
		t.Errorf("committed %d, want 1", got)
	}
	// The group was left, so the next member need not wait for a session to time out.
	next := newFake(always)
	began = time.Now()
	r = run(t, newConsumer(t, groupConfig(b), next))
	next.untilCalls(t, 1)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the next member waited %s for the partition", took)
	}
	r.stop(t)
	if got := next.seen(); !slices.Equal(got, []string{"hang"}) {
		t.Errorf("the next member handled %v, want what was not settled", got)
	}
}

func TestShutdownDuringRetriesDoesNotWaitForThem(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m")
	p := newFake(failOn("m", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Hour, errors.New("later"))}))
	// Nor for the fetch that is under way.
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithFetch(0, 0, 20*time.Second)))
	p.untilCalls(t, 1)
	began := time.Now()
	r.stop(t)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Run took %s to return", took)
	}
}

func TestStopWhileBuryingIsClean(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m")
	p := newFake(failOn("m", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("never"))}))
	tried := make(chan struct{}, 1000)
	p.bury = func(context.Context, dedup.Message, error) dedup.Result {
		tried <- struct{}{}
		return failed(store.FaultOutage, "down")
	}
	r := run(t, newConsumer(t, groupConfig(b), p))
	<-tried
	r.stop(t)
	if got := committed(t, b, 0); got != -1 {
		t.Errorf("committed %d, want nothing", got)
	}
}

// kafka-go joins the next generation as soon as one has ended, and other members would have to
// rebalance twice.
func TestShutdownDoesNotJoinTheGroupOnceMore(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	var joins, leaves atomic.Int64
	count := func(key kmsg.Key, n *atomic.Int64) {
		b.Cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.Cluster.KeepControl()
			n.Add(1)
			return nil, nil, false
		})
	}
	count(kmsg.JoinGroup, &joins)
	count(kmsg.LeaveGroup, &leaves)
	produce(t, b, 0, "m")
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p))
	p.untilCalls(t, 1)
	r.stop(t)
	if joins.Load() != 1 || leaves.Load() != 1 {
		t.Errorf("joined %d times and left %d times, want once each", joins.Load(), leaves.Load())
	}
}
