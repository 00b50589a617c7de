package natssub_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// batches is a processor that takes many messages at once and stops behind the first one
// that is not settled, as a guard does.
type batches struct {
	processor
	sizes sync.Map // size of a call -> true
	mu    sync.Mutex
	calls int
	each  int
}

func (p *batches) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	return p.run(ctx, ms)
}

func (p *batches) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	p.mu.Lock()
	p.each++
	p.mu.Unlock()
	return p.run(ctx, ms)
}

func (p *batches) run(ctx context.Context, ms []dedup.Message) []dedup.Result {
	p.sizes.Store(len(ms), true)
	var results []dedup.Result
	for _, m := range ms {
		results = append(results, p.Process(ctx, m))
		if !results[len(results)-1].Outcome.Settled() {
			break
		}
	}
	return results
}

func (p *batches) largest() int {
	most := 0
	p.sizes.Range(func(n, _ any) bool {
		most = max(most, n.(int))
		return true
	})
	return most
}

func TestABatchIsProcessedWhenItIsFull(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(100)...)
	p := &batches{}
	// The linger is longer than the test waits: only full batches come through. The hand
	// holds exactly the batches that are worked on, so room has to be asked for bit by bit.
	r := consume(t, js, p, natssub.WithBatch(10, time.Hour), natssub.WithConcurrency(2), natssub.WithPrefetch(20))
	settled(t, js)
	r.stop()
	if p.calls != 10 || p.largest() != 10 || p.each != 0 {
		t.Errorf("%d batches, the largest of %d, and %d chains; want 10 batches of 10", p.calls, p.largest(), p.each)
	}
}

// Less than half of the hand is free and everything in it waits: nothing will make room
// before the batch is full.
func TestABatchFillsAlthoughTheHandIsNearlyFull(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(20)...)
	p := &batches{}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, MaxRequestBatch: 3}, p,
		natssub.WithBatch(10, time.Hour), natssub.WithConcurrency(1), natssub.WithPrefetch(10))
	settled(t, js)
	r.stop()
	if p.calls != 2 {
		t.Errorf("%d batches, want 2", p.calls)
	}
}

func TestABatchIsProcessedOnceItsOldestMessageHasLingered(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(3)...)
	p := &batches{}
	begun := time.Now()
	r := consume(t, js, p, natssub.WithBatch(10, 200*time.Millisecond))
	settled(t, js)
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("processed after %s, before the linger was over", took)
	}
	r.stop()
	if p.largest() != 3 {
		t.Errorf("the largest batch had %d messages, want all 3", p.largest())
	}
}

func TestOneBadMessageOfABatchTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, numbered(20)...)
		p := &batches{}
		p.process = func(_ context.Context, m dedup.Message) dedup.Result {
			if string(m.Body) == "5" {
				return failed(store.FaultHandler, "bad")
			}
			return applied
		}
		opts := []natssub.Option{quick, natssub.WithBatch(10, 10*time.Millisecond)}
		if ordered {
			opts = append(opts, natssub.WithOrder())
		}
		r := consume(t, js, p, opts...)
		settled(t, js)
		r.stop()
		got := p.got()
		counts := map[string]int{}
		for _, body := range got {
			counts[body]++
		}
		for _, body := range numbered(20) {
			want := 1
			if body == "5" {
				want = 3
			}
			if counts[body] != want {
				t.Errorf("ordered %v: message %s processed %d times, want %d", ordered, body, counts[body], want)
			}
		}
		if p.buriedCount() != 1 {
			t.Errorf("%d messages buried, want one", p.buriedCount())
		}
		if ordered && !slices.Equal(got, slices.Concat(numbered(4), []string{"5", "5", "5"}, numbered(20)[5:])) {
			t.Errorf("out of order: %v", got)
		}
	}
}

func TestQuickMessagesAreChained(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(500)...)
	p := &batches{}
	r := consume(t, js, p)
	settled(t, js)
	r.stop()
	if p.largest() < 2 || p.calls != 0 {
		t.Errorf("the longest chain had %d messages, with %d batches; want chains and no batches", p.largest(), p.calls)
	}
}

func TestSlowMessagesAreNotChained(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(12)...)
	p := &batches{}
	p.process = func(context.Context, dedup.Message) dedup.Result {
		time.Sleep(60 * time.Millisecond)
		return applied
	}
	r := consume(t, js, p, natssub.WithConcurrency(2))
	settled(t, js)
	r.stop()
	if p.largest() != 1 {
		t.Errorf("a chain of %d slow messages, which wait behind each other", p.largest())
	}
}
