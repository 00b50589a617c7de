package kafkasub_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// attempts returns the attempt numbers with which the value was processed.
func (f *fake) attempts(value string) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []int
	for _, m := range f.calls {
		if string(m.Body) == value {
			all = append(all, m.Attempt)
		}
	}
	return all
}

func failOn(value string, r dedup.Result) func(context.Context, dedup.Message) dedup.Result {
	return func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == value {
			return r
		}
		return applied
	}
}

func TestMessageIsBuriedAfterItsAttemptsAndThePartitionGoesOn(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*fake) (dedup.Processor, []kafkasub.Option){
		"each": func(f *fake) (dedup.Processor, []kafkasub.Option) { return each{f}, nil },
		"batch": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return batch{f}, []kafkasub.Option{kafkasub.WithBatch(10, 0)}
		},
		"plain": func(f *fake) (dedup.Processor, []kafkasub.Option) { return f, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			produce(t, b, 0, numbered("m", 5)...)
			f := newFake(failOn("m2", failed(store.FaultHandler, "poison")))
			var reason atomic.Value
			f.bury = func(_ context.Context, _ dedup.Message, err error) dedup.Result {
				reason.Store(err.Error())
				return dedup.Result{Outcome: dedup.Buried}
			}
			p, opts := wrap(f)
			r := run(t, newConsumer(t, groupConfig(b), p, append(opts, fastPolicy(3))...))
			untilCommitted(t, b, 0, 5)
			r.stop(t)
			if got := f.attempts("m2"); !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("attempts %v, want 1, 2, 3", got)
			}
			if len(f.buried) != 1 || string(f.buried[0].Body) != "m2" || f.buried[0].Attempt != 3 || reason.Load() != "poison" {
				t.Errorf("buried %+v for %v", f.buried, reason.Load())
			}
			if got := f.attempts("m4"); !slices.Equal(got, []int{1}) {
				t.Errorf("attempts of the message behind: %v", got)
			}
		})
	}
}

func TestPermanentFailureIsBuriedAtOnce(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"permanent": dedup.Permanent(errors.New("never")),
		"key":       &dedup.KeyError{Err: dedup.ErrNoKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			produce(t, b, 0, numbered("m", 3)...)
			p := newFake(failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: err}))
			r := run(t, newConsumer(t, groupConfig(b), each{p}))
			untilCommitted(t, b, 0, 3)
			r.stop(t)
			if got := p.attempts("m1"); len(got) != 1 || len(p.buried) != 1 {
				t.Errorf("attempts %v, buried %v", got, bodies(p.buried))
			}
		})
	}
}

func TestBuryIsRepeatedUntilItIsSettled(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 3)...)
	p := newFake(failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("never"))}))
	answers := []dedup.Result{
		failed(store.FaultOutage, "down"), {Outcome: dedup.Unknown, Err: errors.New("cut")},
		failed(store.FaultHandler, "odd"), {Outcome: dedup.Duplicate},
	}
	var buries atomic.Int64
	p.bury = func(context.Context, dedup.Message, error) dedup.Result {
		if n := buries.Add(1); n == 4 && committed(t, b, 0) != 1 {
			t.Error("an offset was committed over a message that is not buried yet")
		}
		return answers[buries.Load()-1]
	}
	r := run(t, newConsumer(t, groupConfig(b), each{p}))
	untilCommitted(t, b, 0, 3)
	r.stop(t)
	if got := p.attempts("m1"); buries.Load() != 4 || len(got) != 1 {
		t.Errorf("%d calls of Bury and attempts %v, want 4 and one attempt", buries.Load(), got)
	}
}

func TestNobodysFaultSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	answers := []dedup.Result{
		failed(store.FaultOutage, "down"), failed(store.FaultBusy, "locked"), failed(store.FaultConflict, "40001"),
		{Outcome: dedup.Unknown, Err: errors.New("cut")}, failed(store.FaultHandler, "own"), failed(store.FaultOutage, "down"), applied,
	}
	var n atomic.Int64
	p := newFake(func(context.Context, dedup.Message) dedup.Result { return answers[n.Add(1)-1] })
	r := run(t, newConsumer(t, groupConfig(b), p, fastPolicy(2)))
	untilCommitted(t, b, 0, 1)
	r.stop(t)
	if got := p.attempts("m0"); !slices.Equal(got, []int{1, 1, 1, 1, 1, 2, 2}) || len(p.buried) > 0 {
		t.Errorf("attempts %v, buried %v", got, bodies(p.buried))
	}
}

func TestRetryAfterIsRespected(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	var first time.Time
	p := newFake(nil)
	p.answer = func(_ context.Context, m dedup.Message) dedup.Result {
		if first.IsZero() {
			first = time.Now()
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(400*time.Millisecond, errors.New("later"))}
		}
		if waited := time.Since(first); waited < 400*time.Millisecond {
			t.Errorf("tried again after %s", waited)
		}
		return applied
	}
	r := run(t, newConsumer(t, groupConfig(b), p))
	untilCommitted(t, b, 0, 1)
	r.stop(t)
}

func TestStopEndsRunWithTheError(t *testing.T) {
	t.Parallel()
	cause := errors.New("relation does not exist")
	for name, c := range map[string]struct {
		answer func(context.Context, dedup.Message) dedup.Result
		opts   []kafkasub.Option
		bury   func(context.Context, dedup.Message, error) dedup.Result
		want   string
	}{
		"setup": {
			answer: failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultSetup, Err: cause}), want: "orders/0@1: setup: ",
		},
		"canceled by somebody else": {
			answer: failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: cause}), want: "orders/0@1: canceled: ",
		},
		"no dead letters": {
			answer: failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: cause}),
			opts:   []kafkasub.Option{kafkasub.WithoutDeadLetters(), fastPolicy(2)}, want: "orders/0@1: given up after 2 attempts, and there are no dead letters: ",
		},
		"no dead letters, permanent": {
			answer: failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(cause)}),
			opts:   []kafkasub.Option{kafkasub.WithoutDeadLetters()}, want: "orders/0@1: given up after 1 attempts",
		},
		"setup while burying": {
			answer: failOn("m1", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("never"))}),
			bury: func(context.Context, dedup.Message, error) dedup.Result {
				return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultSetup, Err: cause}
			},
			want: "orders/0@1: bury: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 2)
			produce(t, b, 0, numbered("m", 3)...)
			p := newFake(c.answer)
			p.bury = c.bury
			r := run(t, newConsumer(t, groupConfig(b), each{p}, c.opts...))
			err := r.wait(t)
			if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), `kafkasub: run group "billing": `+c.want) {
				t.Errorf("Run = %v, want %q and the cause", err, c.want)
			}
			if errors.Is(err, kafkasub.ErrNotClean) {
				t.Errorf("Run = %v, want the rest to be clean", err)
			}
			if got := committed(t, b, 0); got != 1 {
				t.Errorf("committed %d, want 1: what was settled before", got)
			}
		})
	}
}

// A processor that breaks its word is not trusted with the offset.
func TestProcessorWithoutResultsStopsTheConsumer(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m")
	r := run(t, newConsumer(t, groupConfig(b), silent{newFake(always)}))
	if err := r.wait(t); err == nil || !strings.Contains(err.Error(), "0 results for 1 messages") {
		t.Errorf("Run = %v", err)
	}
	if got := committed(t, b, 0); got != -1 {
		t.Errorf("committed %d, want nothing", got)
	}
}

type silent struct{ *fake }

func (silent) ProcessEach(context.Context, []dedup.Message) []dedup.Result { return nil }

type checked struct {
	*fake
	err error
}

func (c checked) Check(context.Context) error { return c.err }

func TestProcessorIsCheckedBeforeTheBrokersAreAsked(t *testing.T) {
	t.Parallel()
	missing := errors.New("table is missing")
	cfg := kafka.ConsumerGroupConfig{ID: group, Brokers: []string{"127.0.0.1:1"}, Topics: []string{topic}}
	err := newConsumer(t, cfg, checked{newFake(always), missing}).Run(context.Background())
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), "check the processor") {
		t.Errorf("Run = %v, want what Check returned", err)
	}
	b := startBroker(t, 1)
	produce(t, b, 0, "m")
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), checked{p, nil}))
	p.untilCalls(t, 1)
	r.stop(t)
}

// A rebalance in the middle of the attempts of a message does not give it new ones.
func TestAttemptsSurviveARebalance(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	p := newFake(failOn("m0", failed(store.FaultHandler, "poison")))
	cfg := groupConfig(b)
	r := run(t, newConsumer(t, cfg, p, kafkasub.WithPolicy(slowPolicy(4))))
	p.untilCalls(t, 2)
	// The other topic has no part in it; its member makes the group rebalance when it comes.
	cfg.Topics = []string{"payments"}
	if err := b.CreateTopic(context.Background(), "payments", 1); err != nil {
		t.Fatal(err)
	}
	other := run(t, newConsumer(t, cfg, newFake(always)))
	eventually(t, "the other member has joined", func() bool { return len(other.Assigned()) == 1 })
	p.until(t, "the message is buried", func() bool { return len(p.buried) == 1 })
	other.stop(t)
	r.stop(t)
	if got := p.attempts("m0"); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("attempts %v, want 1 to 4", got)
	}
}

// With a real guard and store: the dead letter has the place and the reason, and is there once.
func TestDeadLetterOfAGuard(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 3)...)
	s := memstore.New()
	guard, err := dedup.NewTx(s, "billing", dedup.FromCoordinates(), dedup.Forever, func(_ context.Context, _ *memstore.Tx, m dedup.Message) error {
		if string(m.Body) == "m1" {
			return errors.New("poison")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, newConsumer(t, groupConfig(b), guard, kafkasub.WithBatch(10, 0), fastPolicy(2)))
	untilCommitted(t, b, 0, 3)
	r.stop(t)
	letters, err := s.ListDead(t.Context(), store.LetterFilter{Consumer: "billing"}, 0, 10)
	if err != nil || len(letters) != 1 {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	d := letters[0]
	if d.Broker != "kafka" || d.Log != topic || d.Offset != 1 || d.Attempts != 2 || string(d.Body) != "m1" || !strings.Contains(d.Reason, "poison") {
		t.Errorf("dead letter %+v", d)
	}
}
