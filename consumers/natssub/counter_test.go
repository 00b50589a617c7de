package natssub_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// counts is a store that counts attempts, as a guard's does.
type counts struct {
	mu     sync.Mutex
	spent  map[string]int
	starts map[string][]string // by whom
	down   bool
	calls  int
}

var _ dedup.Counter = (*counting)(nil)

// counting is a processor on such a store, which may be shared.
type counting struct {
	processor
	*counts
	without bool
}

func (c *counting) Counts() bool { return !c.without }

func (c *counting) at(m dedup.Message) string { return fmt.Sprint(m.Position) }

func (c *counting) Spend(_ context.Context, m dedup.Message) (int, error) {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.calls++
	if c.down {
		return 0, errors.New("no store")
	}
	c.spent[c.at(m)]++
	delete(c.starts, c.at(m))
	return c.spent[c.at(m)], nil
}

func (c *counting) Start(_ context.Context, m dedup.Message, starter string) (store.Tally, error) {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.calls++
	if c.down {
		return store.Tally{}, errors.New("no store")
	}
	if c.starts == nil {
		c.starts = map[string][]string{}
	}
	if begun := c.starts[c.at(m)]; len(begun) == 0 || begun[len(begun)-1] != starter {
		c.starts[c.at(m)] = append(begun, starter)
	}
	return store.Tally{Spent: c.spent[c.at(m)], Starts: len(c.starts[c.at(m)])}, nil
}

func (c *counting) Survive(ctx context.Context, m dedup.Message, starter string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.calls++
	if begun := c.starts[c.at(m)]; len(begun) > 0 && begun[len(begun)-1] == starter {
		c.starts[c.at(m)] = begun[:len(begun)-1]
	}
	return nil
}

func (c *counting) Forget(_ context.Context, m dedup.Message) error {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.calls++
	delete(c.spent, c.at(m))
	delete(c.starts, c.at(m))
	return nil
}

func (c *counting) Enter(context.Context, string, int, string) (bool, error) { return true, nil }
func (c *counting) Leave(context.Context, string, int, string) error         { return nil }

func failing(c *counts, without bool) *counting {
	p := &counting{counts: c, without: without}
	p.process = func(context.Context, dedup.Message) dedup.Result { return failed(store.FaultHandler, "bad") }
	return p
}

// Each process ends after one attempt; the third one gives the message up.
func TestAttemptsThatTheStoreCountsSurviveARestart(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	c := &counts{spent: map[string]int{}}
	for n := range 3 {
		p := failing(c, false)
		fail := p.process
		entered, proceed := make(chan struct{}, 10), make(chan struct{})
		p.process = func(ctx context.Context, m dedup.Message) dedup.Result {
			entered <- struct{}{}
			<-proceed
			return fail(ctx, m)
		}
		r := consume(t, js, p, quick)
		receive(t, entered)
		r.cancel()
		close(proceed)
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
		if len(p.got()) != 1 || p.buriedCount() != n/2 {
			t.Errorf("process %d: %d runs, %d buried", n+1, len(p.got()), p.buriedCount())
		}
		if n == 2 && p.buried[0].Attempt != 3 {
			t.Errorf("buried after %d attempts, want 3", p.buried[0].Attempt)
		}
	}
	settled(t, js)
	if len(c.spent) != 0 {
		t.Errorf("%v are still counted", c.spent)
	}
}

func TestACountIsForgottenOnceTheMessageIsSettledByWhomever(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	c := &counts{spent: map[string]int{}}
	p := failing(c, false)
	r := consume(t, js, p, natssub.WithPolicy(consumers.Policy{MaxAttempts: 3, MinDelay: time.Second, MaxDelay: time.Second}))
	eventually(t, "a failure", func() bool { return len(p.got()) > 0 })
	r.stop()
	if len(c.spent) != 1 {
		t.Fatalf("counted: %v", c.spent)
	}
	good := &counting{counts: c}
	o := consume(t, js, good)
	settled(t, js)
	o.stop()
	if len(c.spent) != 0 {
		t.Errorf("%v are still counted", c.spent)
	}
}

func TestAMessageThatDoesNotFailIsNotCounted(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(20)...)
	c := &counts{spent: map[string]int{}}
	r := consume(t, js, &counting{counts: c})
	settled(t, js)
	r.stop()
	if c.calls != 0 {
		t.Errorf("the store was asked %d times", c.calls)
	}
}

func TestWithoutAStoreThatCountsAttemptsAreCountedInMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*counts{"none": {}, "away": {spent: map[string]int{}, down: true}} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, "a")
		p := failing(c, name == "none")
		r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable}, p, quick)
		settled(t, js)
		r.stop()
		if len(p.got()) != 3 || p.buriedCount() != 1 || p.buried[0].Attempt != 3 {
			t.Errorf("%s: %d runs, %d buried", name, len(p.got()), p.buriedCount())
		}
	}
}
