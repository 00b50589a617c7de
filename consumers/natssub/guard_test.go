package natssub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// guard counts the effect of each message in a row of its own.
func guard(t *testing.T, s *memstore.Store, fail func(body string) error) *dedup.TxGuard[*memstore.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "billing", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if err := fail(string(m.Body)); err != nil {
			return err
		}
		_, err := tx.Add(ctx, "effect/"+string(m.Body), 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func never(string) error { return nil }

func TestWhatWasDoneBeforeACrashIsADuplicate(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	s := memstore.New()

	// A process that ends between the commit and the acknowledgement.
	c, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	g := guard(t, s, func(string) error { runs.Add(1); return nil })
	if r := g.Process(t.Context(), dedup.Message{Body: msg.Data(), Position: dedup.Position{
		Broker: "nats", Log: stream, Offset: int64(meta.Sequence.Stream), Time: meta.Timestamp,
	}}); r.Outcome != dedup.Applied {
		t.Fatal(r)
	}

	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, g)
	settled(t, js)
	r.stop()
	if n := s.Get("effect/a"); n != 1 || runs.Load() != 1 {
		t.Errorf("effect %d times in %d runs, want once", n, runs.Load())
	}
}

func TestAGuardsDeadLetterHoldsTheMessage(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	heard := terminations(t, js)
	publish(t, js, "bad", "good")
	s := memstore.New()
	r := consume(t, js, guard(t, s, func(body string) error {
		if body == "bad" {
			return errors.New("no such account")
		}
		return nil
	}), quick)
	if said := receive(t, heard); said.Reason != "no such account" {
		t.Errorf("the server says %+v", said)
	}
	settled(t, js)
	r.stop()
	dead, err := s.ListDead(t.Context(), store.LetterFilter{Consumer: "billing"}, 0, 10)
	if err != nil || len(dead) != 1 {
		t.Fatalf("%d dead letters, %v", len(dead), err)
	}
	if d := dead[0]; string(d.Body) != "bad" || d.Attempts != 3 || d.Broker != "nats" || d.Log != stream || d.Topic != "orders.new" || d.Offset != 1 {
		t.Errorf("dead letter %+v", d)
	}
	if s.Get("effect/good") != 1 || s.Get("effect/bad") != 0 {
		t.Error("wrong effects")
	}
}

// Each process ends after one attempt. The store counts, so the third one gives the message up.
func TestAGuardsAttemptsSurviveARestart(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "bad")
	s := memstore.New()
	for range 3 {
		begun, proceed := make(chan struct{}, 10), make(chan struct{})
		r := consume(t, js, guard(t, s, func(string) error {
			begun <- struct{}{}
			<-proceed
			return errors.New("no such account")
		}), quick)
		receive(t, begun)
		r.cancel()
		close(proceed)
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, js)
	dead, err := s.ListDead(t.Context(), store.LetterFilter{Consumer: "billing"}, 0, 10)
	if err != nil || len(dead) != 1 || dead[0].Attempts != 3 {
		t.Errorf("dead letters %+v, %v", dead, err)
	}
}

// Heartbeats do not reach the server, so it gives the message to another process while the first one
// is at it. Both finish, and the first one's late acknowledgement is accepted.
func TestAMessageInTwoProcessesAtATimeHasOneEffect(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, "a")
	s := memstore.New()
	begun, proceed := make(chan struct{}, 10), make(chan struct{})
	first := guard(t, s, func(string) error {
		begun <- struct{}{}
		<-proceed
		return nil
	})
	cfg := jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}
	slow, proxy := b.connectThrough()
	r := consumeWith(t, slow, cfg, first)
	receive(t, begun)
	proxy.Freeze()
	var runs atomic.Int64
	second := guard(t, s, func(string) error { runs.Add(1); return nil })
	o := consumeWith(t, js, cfg, second)
	eventually(t, "the message in the second process", func() bool { return info(t, js).Delivered.Consumer >= 2 })
	close(proceed)
	settled(t, js)
	proxy.Thaw()
	publish(t, js, "b")
	settled(t, js)
	o.stop()
	r.stop()
	if n := s.Get("effect/a"); n != 1 || runs.Load() > 1 { // "b" may be the second's
		t.Errorf("a took effect %d times, the second process ran %d handlers", n, runs.Load())
	}
}

// Two processes share a durable, handlers fail at random, and the server goes away over and
// over: every effect takes place, and takes place once.
func TestEveryEffectTakesPlaceOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]natssub.Option{
		{quick},
		{quick, natssub.WithBatch(20, 5*time.Millisecond)},
		{quick, natssub.WithOrder()},
	} {
		b := startBroker(t)
		js := b.connect()
		makeStream(t, js)
		const total = 400
		publish(t, js, numbered(total)...)
		s := memstore.New()
		g := guard(t, s, func(string) error {
			time.Sleep(time.Millisecond)
			if rand.IntN(20) == 0 {
				return errors.New("bad luck")
			}
			return nil
		})
		cfg := jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}
		stable := consumeWith(t, js, cfg, g, opts...)
		for range 4 {
			other := consumeWith(t, b.connect(), cfg, g, append(opts, natssub.WithDrain(20*time.Millisecond))...)
			eventually(t, "some progress", func() bool { return info(t, js).NumAckPending > 0 || info(t, js).NumPending == 0 })
			b.stop()
			b.start()
			other.cancel()
			if err := other.wait(); err != nil && !errors.Is(err, natssub.ErrNotClean) {
				t.Error(err)
			}
			eventually(t, "reconnected", js.Conn().IsConnected)
		}
		settled(t, js)
		stable.stop()
		dead, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, total)
		if err != nil {
			t.Fatal(err)
		}
		effects := 0
		for i := range total {
			n := s.Get(fmt.Sprintf("effect/%d", i+1))
			if n > 1 {
				t.Errorf("message %d took effect %d times", i+1, n)
			}
			effects += int(n)
		}
		if effects+len(dead) != total {
			t.Errorf("%d effects and %d dead letters of %d messages", effects, len(dead), total)
		}
	}
}
