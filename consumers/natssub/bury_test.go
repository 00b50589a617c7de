package natssub_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// termination is the server's word that a message was terminated.
type termination struct {
	Sequence uint64 `json:"stream_seq"`
	Reason   string `json:"reason"`
}

func terminations(t *testing.T, js jetstream.JetStream) <-chan termination {
	t.Helper()
	heard := make(chan termination, 10)
	sub, err := js.Conn().SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + stream + "." + durable)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			msg, err := sub.NextMsg(time.Minute)
			if err != nil {
				return
			}
			var said termination
			if err := json.Unmarshal(msg.Data, &said); err != nil {
				t.Error(err)
			}
			heard <- said
		}
	}()
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return heard
}

func TestAMessageWithoutAttemptsLeftIsBuriedAndThenTerminated(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	heard := terminations(t, js)
	publish(t, js, "a")
	burying, proceed := make(chan dedup.Message), make(chan struct{})
	p := &processor{
		process: func(context.Context, dedup.Message) dedup.Result {
			return failed(store.FaultHandler, "the total is negative")
		},
		bury: func(_ context.Context, m dedup.Message, reason error) dedup.Result {
			if reason.Error() != "the total is negative" {
				t.Errorf("reason %q", reason)
			}
			burying <- m
			<-proceed
			return dedup.Result{Outcome: dedup.Buried}
		},
	}
	r := consume(t, js, p, quick)
	if m := receive(t, burying); m.Attempt != 3 || string(m.Body) != "a" {
		t.Errorf("buried %q after %d attempts, want a after 3", m.Body, m.Attempt)
	}
	if i := info(t, js); i.NumAckPending != 1 || len(heard) > 0 {
		t.Error("answered before the dead letter was committed")
	}
	close(proceed)
	if said := receive(t, heard); said.Reason != "the total is negative" || said.Sequence != 1 {
		t.Errorf("the server says %+v", said)
	}
	settled(t, js)
	r.stop()
	if n := len(p.got()); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

func TestAPermanentErrorIsBuriedAtOnce(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	heard := terminations(t, js)
	publish(t, js, "a")
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New(strings.Repeat("ä", 5000)))}
	}}
	r := consume(t, js, p)
	if said := receive(t, heard); len(said.Reason) != 1024 || strings.Trim(said.Reason, "ä") != "" {
		t.Errorf("a long reason reached the server as %d bytes", len(said.Reason))
	}
	r.stop()
	if len(p.got()) != 1 || p.buriedCount() != 1 || len(p.reason[0].Error()) != 10000 {
		t.Errorf("%d runs, %d buried; want one of each with all of the reason", len(p.got()), p.buriedCount())
	}
}

func TestAMessageGivenUpForNoReasonIsBuriedWithThatReason(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	heard := terminations(t, js)
	publish(t, js, "a")
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler}
	}}
	r := consume(t, js, p, quick)
	if said := receive(t, heard); said.Reason != "the processor gave no reason" || p.reason[0] == nil {
		t.Errorf("the server says %+v, the reason is %v", said, p.reason[0])
	}
	settled(t, js)
	r.stop()
}

func TestAMessageFoundDoneWhenItIsBuriedIsAcknowledged(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	heard := terminations(t, js)
	publish(t, js, "a")
	p := &processor{
		process: func(context.Context, dedup.Message) dedup.Result {
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("bad"))}
		},
		bury: func(context.Context, dedup.Message, error) dedup.Result {
			return dedup.Result{Outcome: dedup.Duplicate}
		},
	}
	r := consume(t, js, p)
	settled(t, js)
	r.stop()
	if len(heard) > 0 {
		t.Error("terminated a message that was done")
	}
}

func TestABurialThatFailsIsRepeatedBeforeTheServerHearsOfIt(t *testing.T) {
	t.Parallel()
	for _, result := range []dedup.Result{
		failed(store.FaultOutage, "store down"),
		failed(store.FaultHandler, "value too long"),
		{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: errors.New("no answer")},
	} {
		js := startBroker(t).connect()
		makeStream(t, js)
		heard := terminations(t, js)
		publish(t, js, "a")
		var tries atomic.Int64
		p := &processor{
			process: func(context.Context, dedup.Message) dedup.Result {
				return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("bad"))}
			},
			bury: func(context.Context, dedup.Message, error) dedup.Result {
				if tries.Add(1) < 5 {
					return result
				}
				return dedup.Result{Outcome: dedup.Buried}
			},
		}
		r := consume(t, js, p, quick)
		receive(t, heard)
		if n := tries.Load(); n != 5 {
			t.Errorf("%v: terminated after %d burials, want 5", result.Err, n)
		}
		r.stop()
	}
}

func TestWithoutDeadLettersRunEndsAndTheMessageStays(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	heard := terminations(t, js)
	publish(t, js, "a")
	bad := errors.New("bad")
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: bad}
	}}
	r := consume(t, js, plain{p}, quick, natssub.WithoutDeadLetters())
	if err := r.wait(); !errors.Is(err, bad) || errors.Is(err, natssub.ErrNotClean) || !strings.Contains(err.Error(), "dead letters") {
		t.Errorf("Run: %v", err)
	}
	if n := len(p.got()); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
	next := &processor{}
	n := consume(t, js, next)
	settled(t, js)
	n.stop()
	if len(next.got()) != 1 || len(heard) > 0 {
		t.Error("the message did not come back")
	}
}

// plain cannot bury.
type plain struct{ p *processor }

func (p plain) Process(ctx context.Context, m dedup.Message) dedup.Result { return p.p.Process(ctx, m) }

// A process that ends over a message gives no answer: to the server it looks as if the
// message had been fetched and forgotten.
func vanish(t *testing.T, js jetstream.JetStream, n, times int) {
	t.Helper()
	vanishWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, n, times)
}

func vanishWith(t *testing.T, js jetstream.JetStream, cfg jetstream.ConsumerConfig, n, times int) {
	t.Helper()
	c, err := js.CreateOrUpdateConsumer(t.Context(), stream, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		got := 0
		for got < n {
			batch, err := c.Fetch(n - got)
			if err != nil {
				t.Fatal(err)
			}
			for range batch.Messages() {
				got++
			}
		}
	}
}

func TestAMessageGivenBackByOtherProcessesHasAllItsAttempts(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	vanish(t, js, 1, 4)
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Attempt < 3 {
			return failed(store.FaultHandler, "bad")
		}
		return applied
	}}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p, quick)
	settled(t, js)
	r.stop()
	if len(p.got()) != 3 || p.buriedCount() != 0 {
		t.Errorf("%d runs, %d buried; want 3 and none", len(p.got()), p.buriedCount())
	}
}

func TestSuspectsAreTriedOneAtATimeAndAlone(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]natssub.Option{
		nil,
		{natssub.WithBatch(10, time.Millisecond)},
		{natssub.WithOrder()},
	} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, numbered(10)...)
		vanish(t, js, 10, 2)
		var running, most atomic.Int64
		p := &batches{}
		p.process = func(context.Context, dedup.Message) dedup.Result {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
			return applied
		}
		r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p, append(opts, natssub.WithPolicy(consumers.DefaultPolicy()))...)
		settled(t, js)
		r.stop()
		if most.Load() != 1 || p.largest() != 1 {
			t.Errorf("%d suspects ran at once, in chains or batches of up to %d; want one alone", most.Load(), p.largest())
		}
	}
}
