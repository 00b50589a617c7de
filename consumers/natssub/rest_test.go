package natssub_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// slowly puts a message that has not settled off for longer than any test takes.
var slowly = natssub.WithPolicy(consumers.Policy{MaxAttempts: 3, MinDelay: time.Hour, MaxDelay: time.Hour})

// Given back each time, it would go round the processes, and each would count the deliveries to the
// others among those that ended over it.
func TestABusyMessageIsNotTakenForADeadlyOneByOtherProcesses(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	var runs atomic.Int64
	var ps []*processor
	var rs []*running
	for range 3 {
		p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
			if runs.Add(1) <= 40 {
				return failed(store.FaultBusy, "another process has the key")
			}
			return applied
		}}
		ps, rs = append(ps, p), append(rs, consume(t, b.connect(), p, quick))
	}
	eventually(t, "a request of each process", func() bool { return info(t, js).NumWaiting == 3 })
	publish(t, js, "a")
	settled(t, js)
	if i := info(t, js); i.Delivered.Consumer != 1 {
		t.Errorf("%d deliveries, want the message to stay in hand", i.Delivered.Consumer)
	}
	for i, r := range rs {
		r.stop()
		if n := ps[i].buriedCount(); n > 0 {
			t.Errorf("buried: %v", ps[i].reason[0])
		}
	}
	if runs.Load() != 41 {
		t.Errorf("%d runs, want 41", runs.Load())
	}
}

// The ack wait is 30 seconds: what another process gets sooner was given back.
func TestWhatRestsInHandIsGivenBackByAPauseAndAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*natssub.Consumer, *running){
		"pause": func(c *natssub.Consumer, _ *running) { c.Pause() },
		"end":   func(_ *natssub.Consumer, r *running) { r.stop() },
	} {
		for _, opts := range [][]natssub.Option{nil, {natssub.WithOrderBy(byKey)}, {natssub.WithOrder()}} {
			js := startBroker(t).connect()
			makeStream(t, js)
			publish(t, js, "a:1", "a:2", ":3")
			busy := make(chan struct{}, 100)
			p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
				busy <- struct{}{}
				return failed(store.FaultBusy, "busy")
			}}
			c, r := startNew(t, js, p, append(opts, slowly)...)
			receive(t, busy)
			eventually(t, "everything in hand", func() bool { return state(t, c).InHand == 3 && state(t, c).Handling <= 1 })
			leave(c, r)
			other := &processor{}
			o := consume(t, js, other)
			settled(t, js)
			o.stop()
			r.stop()
			if got := other.got(); len(got) != 3 {
				t.Errorf("%s: the other process handled %v", name, got)
			}
			if i := info(t, js); i.Delivered.Consumer != 6 {
				t.Errorf("%s: %d deliveries, want one to each process", name, i.Delivered.Consumer)
			}
		}
	}
}

func TestABatchGoesOnWithoutAMessageThatRests(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	p := &batches{}
	p.process = func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "4" {
			return failed(store.FaultBusy, "busy")
		}
		return applied
	}
	c, r := startNew(t, js, p, natssub.WithBatch(10, time.Minute), natssub.WithConcurrency(1), slowly)
	eventually(t, "all others", func() bool { return info(t, js).NumAckPending == 1 && len(p.got()) == 10 })
	if s := state(t, c); s.InHand != 1 || s.Handling != 0 {
		t.Errorf("state %+v, want one message at rest", s)
	}
	r.stop()
	if got := p.got(); !slices.Equal(got, numbered(10)) {
		t.Errorf("processed %v", got)
	}
}

// Given back, a message at its last delivery would never come again.
func TestTheServersLastDeliveryIsHeld(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]natssub.Option{"": nil, "by key": {natssub.WithOrderBy(byKey)}, "in order": {natssub.WithOrder()}} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, "a:1")
		const last = 4
		cfg := jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait, MaxDeliver: last}
		vanishWith(t, js, cfg, 1, last-1)
		p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
			if m.Attempt < 3 {
				return failed(store.FaultHandler, "bad")
			}
			return applied
		}}
		r := consumeWith(t, js, cfg, p, append(opts, quick)...)
		eventually(t, "three runs", func() bool { return len(p.got()) == 3 })
		r.stop()
		if i := info(t, js); i.NumAckPending != 0 || i.Delivered.Consumer != last {
			t.Errorf("%s: %d pending after %d deliveries, want none after %d", name, i.NumAckPending, i.Delivered.Consumer, last)
		}
	}
}
