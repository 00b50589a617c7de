package natssub_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// shortWait leaves room for the pauses of a busy machine: heartbeats go out at a third of it.
const shortWait = 500 * time.Millisecond

func TestHeartbeatsKeepASlowHandlersMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cfg    jetstream.ConsumerConfig
		before int // deliveries that fail before the slow one
	}{
		{"ack wait", jetstream.ConsumerConfig{AckWait: shortWait}, 0},
		// The first of the list replaces the ack wait, and each delivery has its own.
		{"backoff list", jetstream.ConsumerConfig{AckWait: time.Hour, BackOff: []time.Duration{shortWait, time.Hour}, MaxDeliver: 100}, 0},
		{"backoff list that falls", jetstream.ConsumerConfig{BackOff: []time.Duration{time.Hour, shortWait}, MaxDeliver: 100}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			js := startBroker(t).connect()
			makeStream(t, js)
			publish(t, js, "slow")
			p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
				if m.Attempt <= tt.before {
					return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(0, errors.New("bad"))}
				}
				time.Sleep(4 * shortWait)
				return applied
			}}
			tt.cfg.Durable = durable
			r := consumeWith(t, js, tt.cfg, p)
			settled(t, js)
			if i := info(t, js); i.Delivered.Consumer != uint64(tt.before+1) {
				t.Errorf("%d deliveries, want %d", i.Delivered.Consumer, tt.before+1)
			}
			r.stop()
			if n := len(p.got()); n != tt.before+1 {
				t.Errorf("%d runs, want %d", n, tt.before+1)
			}
		})
	}
}

func TestHeartbeatsKeepMessagesThatWaitBehindASlowOne(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]natssub.Option{
		{natssub.WithConcurrency(1)},
		{natssub.WithOrder()},
	} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, numbered(10)...)
		p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
			if string(m.Body) == "1" {
				time.Sleep(4 * shortWait)
			}
			return applied
		}}
		r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p, opts...)
		settled(t, js)
		if i := info(t, js); i.Delivered.Consumer != 10 {
			t.Errorf("%d deliveries of 10 messages, want one each", i.Delivered.Consumer)
		}
		r.stop()
		if got := p.got(); !slices.Equal(got, numbered(10)) {
			t.Errorf("processed %v", got)
		}
	}
}

func TestHeartbeatsKeepABatchThatFills(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a", "b")
	p := &batches{processor: processor{}}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p, natssub.WithBatch(3, 4*shortWait))
	settled(t, js)
	if i := info(t, js); i.Delivered.Consumer != 2 {
		t.Errorf("%d deliveries of 2 messages, want one each", i.Delivered.Consumer)
	}
	r.stop()
}
