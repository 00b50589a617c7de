package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

func TestParkedEventBlocksItsKeyAndNothingElse(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(func(_ context.Context, e store.Event) error {
		if e.Type == "bad" {
			return outbox.Permanent(errors.New("schema\x00 \xff refused"))
		}
		return nil
	})
	b.run(map[string]outbox.Publisher{"kafka": rec})
	b.write(event("kafka", "a", "first"), event("kafka", "a", "bad"), event("kafka", "a", "behind"),
		event("kafka", "b", "other"), event("kafka", "", "loose"), event("kafka", "", "bad"))
	rec.wait(t, 3)
	eventually(t, "the key waits behind the parked event", func() bool { return b.waiting("parked") == 2 && b.waiting("behind") == 1 })
	b.write(event("kafka", "a", "later"), event("kafka", "b", "later"))
	rec.wait(t, 4)
	eventually(t, "what comes later waits, too", func() bool { return b.waiting("behind") == 2 })
	if got := rec.types("a"); !slices.Equal(got, []string{"first"}) {
		t.Errorf("of the blocked key came %v", got)
	}
	all, err := b.store.ListWaiting(t.Context(), store.WaitingFilter{State: store.Parked, Key: []byte("a")}, 0, 10)
	if err != nil || len(all) != 1 || all[0].Attempts != 1 || !strings.HasPrefix(all[0].Reason, "schema") {
		t.Fatalf("parked are %+v, %v", all, err)
	}

	t.Run("retried", func(t *testing.T) {
		rec.set(nil)
		if n, err := b.store.RetryWaiting(t.Context(), store.WaitingFilter{Key: []byte("a")}, 10); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		rec.wait(t, 7)
		if got := rec.types("a"); !slices.Equal(got, []string{"first", "bad", "behind", "later"}) {
			t.Errorf("after the retry came %v", got)
		}
	})
	t.Run("discarded", func(t *testing.T) {
		if n, err := b.store.DiscardParked(t.Context(), store.WaitingFilter{Destination: "kafka"}, 10); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
	})
}

func TestDiscardedEventLetsItsKeyGoOn(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(func(_ context.Context, e store.Event) error {
		if e.Type == "bad" {
			return outbox.Permanent(errors.New("no"))
		}
		return nil
	})
	b.run(map[string]outbox.Publisher{"kafka": rec})
	b.write(event("kafka", "a", "bad"), event("kafka", "a", "1"), event("kafka", "a", "2"))
	eventually(t, "the first is parked", func() bool { return b.waiting("parked") == 1 && b.waiting("behind") == 2 })
	if n, err := b.store.DiscardParked(t.Context(), store.WaitingFilter{Key: []byte("a")}, 10); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	rec.wait(t, 2)
	b.write(event("kafka", "a", "3"))
	rec.wait(t, 3)
	if got := rec.types("a"); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("came %v", got)
	}
}

func TestOutageSpendsNoAttemptsAndHoldsNobodyElse(t *testing.T) {
	b := newBox(t)
	down, up := newRecorder(func(context.Context, store.Event) error { return errors.New("connection refused") }), newRecorder(nil)
	b.run(map[string]outbox.Publisher{"down": down, "up": up}, outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: time.Millisecond, MaxDelay: time.Millisecond}))
	var events []store.Event
	for i := range 50 {
		for _, destination := range []string{"down", "up"} {
			for _, key := range []string{"a", "b", ""} {
				events = append(events, event(destination, key, fmt.Sprint(i)))
			}
		}
	}
	b.write(events...)
	up.wait(t, 150)
	eventually(t, "all of the others are held", func() bool { return b.waiting("held") == 150 })
	if n := b.count("select count(*) from semel.outbox_waiting where attempts > 0 or starts > 0"); n > 0 {
		t.Errorf("%d events have lost attempts", n)
	}
	down.mu.Lock()
	tries := len(down.calls)
	down.mu.Unlock()
	since := time.Now()
	eventually(t, "five more tries", func() bool {
		down.mu.Lock()
		defer down.mu.Unlock()
		return len(down.calls) >= tries+5
	})
	// The first may come at once. Before the others there are pauses of 10, 20, 40 and 80 ms at least.
	if took := time.Since(since); took < 150*time.Millisecond {
		t.Errorf("it was tried five times within %s", took)
	}
	down.mu.Lock()
	for _, call := range down.calls[tries:] {
		if len(call) != 1 {
			t.Errorf("the topic was tried with %d events at once", len(call))
		}
	}
	down.mu.Unlock()
	b.write(event("down", "a", "50"))
	down.set(nil)
	down.wait(t, 151)
	for key, n := range map[string]int{"a": 51, "b": 50} {
		if got := down.types(key); !slices.Equal(got, numbered(n)) {
			t.Errorf("key %s came as %v", key, got)
		}
	}
	eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
}

func TestOtherTopicsOfADestinationFlowWhileOneIsDown(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(func(_ context.Context, e store.Event) error {
		if e.Topic == "missing" {
			return errors.New("no such topic")
		}
		return nil
	})
	b.run(map[string]outbox.Publisher{"kafka": rec})
	for i := range 20 {
		e := event("kafka", fmt.Sprint("m", i), "x")
		e.Topic = "missing"
		b.write(e, event("kafka", fmt.Sprint("k", i), "x"))
	}
	rec.wait(t, 20)
	eventually(t, "the others are held", func() bool { return b.left() == 20 && b.waiting("held") == 20 })
}

func TestRefusedEventIsRetriedUntilItsBudgetIsUsedUp(t *testing.T) {
	b := newBox(t)
	var mu sync.Mutex
	var times []time.Time
	rec := newRecorder(func(context.Context, store.Event) error {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
		return outbox.RetryAfter(150*time.Millisecond, outbox.Refused(errors.New("no")))
	})
	b.run(map[string]outbox.Publisher{"kafka": rec})
	b.write(event("kafka", "a", "1"))
	eventually(t, "it is parked", func() bool { return b.waiting("parked") == 1 })
	if n := b.count("select attempts from semel.outbox_waiting"); n != 3 {
		t.Errorf("parked after %d attempts, want 3", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(times) != 3 {
		t.Fatalf("%d attempts were made, want 3", len(times))
	}
	for i, at := range times[1:] {
		if pause := at.Sub(times[i]); pause < 150*time.Millisecond {
			t.Errorf("attempt %d came after %s, sooner than was asked for", i+2, pause)
		}
	}
}

func TestUnknownDestinationWaitsVisiblyForARelayThatKnowsIt(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(nil)
	stop := b.run(map[string]outbox.Publisher{"kafka": rec})
	b.write(event("new", "a", "0"), event("new", "a", "1"), event("kafka", "a", "x"))
	rec.wait(t, 1)
	eventually(t, "both are held", func() bool { return b.waiting("held") == 2 })
	if n := b.count("select count(*) from semel.outbox_waiting where attempts = 0 and reason like '%no publisher%'"); n < 1 {
		t.Error("the reason is not stated")
	}
	stop()
	known := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec, "new": known})
	known.wait(t, 2)
	if got := known.types("a"); !slices.Equal(got, numbered(2)) {
		t.Errorf("came %v", got)
	}
}

func TestPanicOfAPublisherIsAFailureOfTheEventThatCausesIt(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(func(_ context.Context, e store.Event) error {
		if e.Type == "bad" {
			panic("bug")
		}
		return nil
	})
	b.run(map[string]outbox.Publisher{"kafka": rec})
	var events []store.Event
	for i := range 10 {
		events = append(events, event("kafka", fmt.Sprint("k", i), "0"), event("kafka", fmt.Sprint("k", i), "1"))
	}
	b.write(append(events, event("kafka", "k3", "bad"), event("kafka", "k3", "2"))...)
	eventually(t, "only the one that causes it is parked", func() bool { return b.waiting("parked") == 1 && b.left() == 2 })
	for i := range 10 {
		if got := firstCopies(rec.types(fmt.Sprint("k", i))); !slices.Equal(got, numbered(2)) {
			t.Errorf("key %d came as %v", i, got)
		}
	}
}

// answers returns what it is told, whatever it was asked.
type answers func(events []store.Event) []error

func (f answers) Publish(_ context.Context, events []store.Event) []error { return f(events) }

func TestPublisherThatBreaksItsContractLosesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		f func(events []store.Event) []error
	}{
		"too few results":    {func([]store.Event) []error { return []error{} }},
		"ends its goroutine": {func([]store.Event) []error { runtime.Goexit(); return nil }},
		"tries nothing": {func(events []store.Event) []error {
			return slices.Repeat([]error{outbox.ErrNotSent}, len(events))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			var calls atomic.Int64
			stop := b.run(map[string]outbox.Publisher{"kafka": answers(func(events []store.Event) []error {
				calls.Add(1)
				return test.f(events)
			})})
			b.write(event("kafka", "a", "0"), event("kafka", "a", "1"), event("kafka", "", "2"))
			eventually(t, "it is called again", func() bool { return calls.Load() > 1 })
			time.Sleep(200 * time.Millisecond)
			if n := calls.Load(); n > 100 {
				t.Errorf("it was called %d times in 200ms", n)
			}
			stop()
			if n := b.left(); n != 3 {
				t.Errorf("%d events are left, want 3", n)
			}
		})
	}
}

func TestHangingTopicDoesNotHoldTheOthers(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(func(ctx context.Context, e store.Event) error {
		if e.Topic == "hangs" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	var events []store.Event
	for range 500 {
		e := event("hooks", "", "x")
		e.Topic = "hangs"
		events = append(events, e)
	}
	b.write(events...)
	for i := range 50 {
		e := event("hooks", fmt.Sprint("k", i), "x")
		e.Topic = fmt.Sprint("healthy", i%3)
		b.write(e)
	}
	b.run(map[string]outbox.Publisher{"hooks": splitRecorder{rec}}, outbox.WithDrain(100*time.Millisecond))
	start := time.Now()
	rec.wait(t, 50)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the healthy topics took %s", took)
	}
}

func TestSlowDestinationDoesNotHoldTheOthers(t *testing.T) {
	b := newBox(t)
	release := make(chan struct{})
	slow := newRecorder(func(ctx context.Context, _ store.Event) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	quick := newRecorder(nil)
	var events []store.Event
	for i := range 3000 {
		events = append(events, event("slow", fmt.Sprint("k", i%100), fmt.Sprint(i/100)))
	}
	b.write(append(events, event("quick", "k", "x"))...)
	b.run(map[string]outbox.Publisher{"slow": slow, "quick": quick}, outbox.WithBatch(50))
	start := time.Now()
	quick.wait(t, 1)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the quick one took %s", took)
	}
	close(release)
	slow.wait(t, 3000)
	for i := range 100 {
		if got := firstCopies(slow.types(fmt.Sprint("k", i))); !slices.Equal(got, numbered(30)) {
			t.Errorf("key %d came as %v", i, got)
		}
	}
	slow.noRivals(t)
}

func TestPublishHasADeadline(t *testing.T) {
	b := newBox(t)
	var hung atomic.Bool
	rec := newRecorder(func(ctx context.Context, _ store.Event) error {
		if hung.Swap(true) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	b.run(map[string]outbox.Publisher{"kafka": rec}, outbox.WithPublishTimeout(50*time.Millisecond))
	b.write(event("kafka", "a", "1"))
	rec.wait(t, 1)
	eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
}
