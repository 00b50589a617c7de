package natssub_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func TestAFailedMessageComesAgainAfterItsOwnDelay(t *testing.T) {
	t.Parallel()
	const delay = 400 * time.Millisecond
	for _, tt := range []struct {
		name   string
		policy consumers.Policy
		err    error
	}{
		{"policy's delay", consumers.Policy{MaxAttempts: 3, MinDelay: 2 * delay, MaxDelay: 2 * delay}, errors.New("bad")},
		{"handler's wish", consumers.Policy{MaxAttempts: 3, MinDelay: 1, MaxDelay: 1}, dedup.RetryAfter(delay, errors.New("bad"))},
	} {
		for _, ordered := range []bool{false, true} {
			js := startBroker(t).connect()
			makeStream(t, js)
			publish(t, js, "a")
			var mu sync.Mutex
			var times []time.Time
			p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Now())
				if m.Attempt != len(times) {
					t.Errorf("attempt is %d in run %d", m.Attempt, len(times))
				}
				if len(times) == 1 {
					return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: tt.err}
				}
				return applied
			}}
			opts := []natssub.Option{natssub.WithPolicy(tt.policy)}
			if ordered {
				opts = append(opts, natssub.WithOrder())
			}
			r := consume(t, js, p, opts...)
			settled(t, js)
			r.stop()
			if len(times) != 2 {
				t.Fatalf("%s: %d runs, want 2", tt.name, len(times))
			}
			if gap := times[1].Sub(times[0]); gap < delay || gap > 10*delay {
				t.Errorf("%s: tried again after %s, want %s or somewhat more", tt.name, gap, delay)
			}
		}
	}
}

func TestOthersGoOnWhileAFailedMessageWaits(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(50)...)
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "1" && m.Attempt == 1 {
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Second, errors.New("bad"))}
		}
		return applied
	}}
	r := consume(t, js, p, natssub.WithConcurrency(1))
	settled(t, js)
	r.stop()
	want := append(numbered(50), "1")
	if got := p.got(); !slices.Equal(got, want) {
		t.Errorf("processed %v, want the failed one again at the end", got)
	}
}

func TestOrderHoldsEverybodyBehindAFailedMessage(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(50)...)
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "7" && m.Attempt < 3 {
			return failed(store.FaultHandler, "bad")
		}
		return applied
	}}
	r := consume(t, js, p, natssub.WithOrder(), quick)
	settled(t, js)
	if i := info(t, js); i.Delivered.Consumer != 50 {
		t.Errorf("%d deliveries of 50 messages: a failed one was given back", i.Delivered.Consumer)
	}
	r.stop()
	want := slices.Concat(numbered(7), []string{"7", "7"}, numbered(50)[7:])
	if got := p.got(); !slices.Equal(got, want) {
		t.Errorf("processed %v", got)
	}
}

// The server's MaxAckPending of one is the only order that survives crashes and other
// processes: nothing else is delivered while a message waits for its retry.
func TestMaxAckPendingOfOneKeepsOrderOverRetries(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "4" && m.Attempt < 3 {
			return failed(store.FaultHandler, "bad")
		}
		return applied
	}}
	cfg := jetstream.ConsumerConfig{Durable: durable, MaxAckPending: 1}
	r := consumeWith(t, js, cfg, p, quick)
	r2 := consumeWith(t, js, cfg, p, quick)
	settled(t, js)
	r.stop()
	r2.stop()
	got := slices.Compact(p.got())
	if !slices.Equal(got, numbered(10)) {
		t.Errorf("processed %v", p.got())
	}
}

func TestWhatIsNotTheMessagesFaultSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, fault := range []store.Fault{store.FaultOutage, store.FaultBusy, store.FaultConflict} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			js := startBroker(t).connect()
			makeStream(t, js)
			publish(t, js, "a")
			var runs atomic.Int64
			p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
				if m.Attempt != 1 {
					t.Errorf("attempt %d", m.Attempt)
				}
				if runs.Add(1) <= 30 { // Ten times the attempts that there are.
					return failed(fault, "not yours")
				}
				return applied
			}}
			r := consume(t, js, p, quick)
			settled(t, js)
			if i := info(t, js); i.Delivered.Consumer != 1 {
				t.Errorf("%d deliveries, want the message to be held", i.Delivered.Consumer)
			}
			r.stop()
			if p.buriedCount() > 0 {
				t.Error("buried")
			}
		})
	}
}

func TestAnUnknownCommitIsTriedAgainAndSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	var runs atomic.Int64
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Attempt != 1 {
			t.Errorf("attempt %d", m.Attempt)
		}
		if runs.Add(1) <= 5 {
			if c, err := js.Consumer(context.Background(), stream, durable); err != nil || c.CachedInfo().AckFloor.Stream != 0 {
				t.Errorf("acknowledged on an unknown end (or %v)", err)
			}
			return dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: errors.New("no answer")}
		}
		return dedup.Result{Outcome: dedup.Duplicate}
	}}
	r := consume(t, js, p, quick)
	settled(t, js)
	r.stop()
	if p.buriedCount() > 0 || runs.Load() != 6 {
		t.Errorf("%d runs, %d buried; want 6 and none", runs.Load(), p.buriedCount())
	}
}
