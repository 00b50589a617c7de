package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// flaky fails at random in every way there is, and sometimes after the event has arrived.
func flaky(seed uint64, panics bool) func(context.Context, store.Event) error {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func(context.Context, store.Event) error {
		mu.Lock()
		n := r.IntN(100)
		mu.Unlock()
		switch {
		case n < 4:
			return outbox.Refused(errors.New("not now"))
		case n < 8:
			return errors.New("connection reset")
		case n < 9:
			return outbox.RetryAfter(5*time.Millisecond, errors.New("slow down"))
		case n < 10 && panics:
			panic("the publisher has a bug")
		}
		return nil
	}
}

// firstCopies are the events of a key in the order of their first arrival.
func firstCopies(types []string) (first []string) {
	seen := map[string]bool{}
	for _, kind := range types {
		if !seen[kind] {
			seen[kind] = true
			first = append(first, kind)
		}
	}
	return first
}

// splitRecorder is a recorder whose topics are servers of their own.
type splitRecorder struct{ *recorder }

func (splitRecorder) SplitByTopic() {}

func TestOrderPerKeyHoldsWhateverFailsAndWhoeverRelays(t *testing.T) {
	for name, test := range map[string]struct{ split, panics bool }{
		"plain": {}, "panics": {panics: true}, "split": {split: true},
	} {
		t.Run(name, func(t *testing.T) { testOrder(t, test.split, test.panics) })
	}
}

func testOrder(t *testing.T, split, panics bool) {
	b := newBox(t)
	noLeaks(t)
	rec := newRecorder(flaky(7, panics))
	publishers := map[string]outbox.Publisher{"kafka": rec}
	if split {
		publishers["kafka"] = splitRecorder{rec}
	}
	patient := outbox.WithRetry(outbox.Retry{MaxAttempts: 1000, MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond})
	quick := outbox.WithProbe(time.Millisecond, 10*time.Millisecond)

	const keys, each = 20, 100
	written := make(chan struct{})
	go func() {
		defer close(written)
		var writers sync.WaitGroup
		for k := range keys {
			writers.Go(func() {
				for i := 0; i < each; {
					// The transaction of a key begins when the one before it has ended.
					var events []store.Event
					for range 1 + (k+i)%3 {
						if i < each {
							e := event("kafka", fmt.Sprint("k", k), fmt.Sprint(i))
							if e.Topic = fmt.Sprint("t", i%2); split {
								e.Topic = fmt.Sprint("t", k%5) // the order holds within a topic
							}
							events = append(events, e)
							i++
						}
					}
					b.write(append(events, event("kafka", "", "loose"))...)
				}
			})
		}
		writers.Wait()
	}()

	// Relays come and go.
	stops := []func(){b.run(publishers, patient, quick), b.run(publishers, patient, quick)}
	for range 4 {
		time.Sleep(150 * time.Millisecond)
		stops[0]()
		stops = append(stops[1:], b.run(publishers, patient, quick))
	}
	<-written
	eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
	for _, stop := range stops {
		stop()
	}
	for k := range keys {
		if got := firstCopies(rec.types(fmt.Sprint("k", k))); !slices.Equal(got, numbered(each)) {
			t.Errorf("key %d arrived as %v", k, got)
		}
	}
	rec.noRivals(t)
}

// A key may go to several topics. While one of them is down and a row of another one is under way
// that then turns out not to have been sent, the later row must not be tried first.
func TestOrderOfAKeyHoldsOverTopics(t *testing.T) {
	b := newBox(t)
	var mu sync.Mutex
	down, untried := true, true
	rec := newRecorder(func(_ context.Context, e store.Event) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.Topic == "b" && down:
			return errors.New("no such topic")
		case e.Type == "0" && untried:
			untried, down = false, false
			return outbox.ErrNotSent
		}
		return nil
	})
	to := func(topic, key, kind string) store.Event {
		e := event("kafka", key, kind)
		e.Topic = topic
		return e
	}
	b.run(map[string]outbox.Publisher{"kafka": rec}, outbox.WithCalls(1), outbox.WithProbe(300*time.Millisecond, 300*time.Millisecond))
	b.write(to("b", "", "opens"))
	eventually(t, "the topic is down", func() bool { return b.waiting("held") == 1 })
	b.write(to("a", "", "loose"), to("a", "k", "0"), to("b", "k", "1"), to("a", "k", "2"), to("b", "k", "3"))
	rec.wait(t, 6)
	if got := rec.types("k"); !slices.Equal(got, numbered(4)) {
		t.Errorf("came %v", got)
	}
}
