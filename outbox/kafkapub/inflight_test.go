package kafkapub_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store"
)

func TestWhenTheContextEndsTheRunningWriteIsWaitedForAndNothingElseBegins(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, func(w *kafka.Writer) { w.BatchSize = 2 })
	held, release := hold(b)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan []error)
	go func() { result <- p.Publish(ctx, numbered("a", "k", 5)) }()
	<-held
	cancel()
	select {
	case errs := <-result:
		t.Fatalf("returned while the write was running: %v", errs)
	case <-time.After(100 * time.Millisecond): // There is no signal for not returning.
	}
	release()
	errs := <-result
	for i, err := range errs {
		want := outbox.NotSent
		if i < 2 {
			want = outbox.Confirmed
		}
		if got := outbox.VerdictOf(err); got != want {
			t.Errorf("event %d: %s (%v), want %s", i, got, err, want)
		}
	}
	if got := payloads(records(t, b, "a")); !slices.Equal(got, []string{"k00", "k01"}) {
		t.Errorf("written: %q", got)
	}
}

func TestAWriteThatOutlivesItsCallIsJoinedAndNotRepeated(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil, kafkapub.WithLimit(time.Second))
	held, release := hold(b)
	events := numbered("a", "k", 3)
	errs := p.Publish(t.Context(), events[:1])
	<-held
	if len(errs) != 1 || outbox.VerdictOf(errs[0]) != outbox.Unreached {
		t.Fatalf("the limit has passed, Publish said %v", errs)
	}
	result := make(chan []error)
	go func() { result <- p.Publish(t.Context(), events) }()
	waitFor(t, "an event that shares a write", func() bool { return p.Joined() > 0 })
	release()
	if errs := <-result; errs != nil {
		t.Fatal(errs)
	}
	if got := payloads(records(t, b, "a")); !slices.Equal(got, []string{"k00", "k01", "k02"}) {
		t.Errorf("written: %q, want each once", got)
	}
}

func TestAfterTheContextHasEndedARunningWriteIsNotWaitedForForLong(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil, kafkapub.WithLimit(time.Hour), kafkapub.WithGrace(50*time.Millisecond))
	held, release := hold(b)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-held; cancel() }()
	began := time.Now()
	errs := p.Publish(ctx, numbered("a", "k", 2))
	// Both are in one batch, which may arrive.
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != outbox.Unreached {
			t.Errorf("event %d: %s (%v)", i, got, err)
		}
	}
	if took := time.Since(began); len(errs) != 2 || took > 5*time.Second {
		t.Errorf("%d results after %s", len(errs), took)
	}
}

func TestACallBehindAWriteThatHangsEndsAtItsLimitUnsent(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil, kafkapub.WithLimit(300*time.Millisecond))
	held, release := hold(b)
	go p.Publish(t.Context(), numbered("a", "k", 1))
	<-held
	errs := p.Publish(t.Context(), []store.Event{event("a", "other", "waits")})
	if len(errs) != 1 || !errors.Is(errs[0], outbox.ErrNotSent) {
		t.Errorf("errors: %v", errs)
	}
	release()
	if got := payloads(records(t, b, "a")); slices.Contains(got, "waits") {
		t.Errorf("sent after its call had returned: %q", got)
	}
}

func TestCloseWaitsForTheWriterButNotForEver(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	held, release := hold(b)
	result := make(chan []error)
	go func() { result <- p.Publish(t.Context(), numbered("a", "k", 1)) }()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close while a write hangs: %v", err)
	}
	if errs := p.Publish(t.Context(), numbered("a", "other", 1)); len(errs) != 1 || !errors.Is(errs[0], outbox.ErrNotSent) {
		t.Errorf("publish after close: %v", errs)
	}
	release()
	if errs := <-result; errs != nil {
		t.Errorf("the write that was under way: %v", errs)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestACallThatHasJoinedAWriteWaitsForItEvenWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil, kafkapub.WithLimit(time.Second))
	held, release := hold(b)
	events := numbered("a", "k", 1)
	p.Publish(t.Context(), events)
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan []error)
	go func() { result <- p.Publish(ctx, events) }()
	waitFor(t, "an event that shares a write", func() bool { return p.Joined() > 0 })
	cancel()
	release()
	if errs := <-result; errs != nil {
		t.Errorf("errors: %v", errs)
	}
}

func TestWhenTheContextEndsTheRestOfAHalvedBatchStaysUnsent(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	refused := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		if refused.Hits() > 0 {
			cancel()
			b.Cluster.SleepControl(func() { waitFor(t, "the call to end", p.Ended) })
		}
		return nil, nil, false
	})
	errs := p.Publish(ctx, numbered("a", "k", 4))
	want := []outbox.Verdict{outbox.Confirmed, outbox.Confirmed, outbox.NotSent, outbox.NotSent}
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != want[i] {
			t.Errorf("event %d: %s (%v), want %s", i, got, err, want[i])
		}
	}
	if got := payloads(records(t, b, "a")); !slices.Equal(got, []string{"k00", "k01"}) {
		t.Errorf("written: %q", got)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}
