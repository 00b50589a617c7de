package natssub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// byKey takes what stands before the colon of the body.
func byKey(m dedup.Message) []byte {
	key, _, _ := strings.Cut(string(m.Body), ":")
	return []byte(key)
}

// keyed are n messages of each of some keys, mixed.
func keyed(n int, keys ...string) []string {
	var bodies []string
	for i := range n {
		for _, key := range keys {
			bodies = append(bodies, fmt.Sprintf("%s:%03d", key, i))
		}
	}
	return bodies
}

// inOrder demands that the settled messages of each key follow each other.
func inOrder(t *testing.T, settled []string) {
	t.Helper()
	last := map[string]string{}
	for _, body := range settled {
		key, _, _ := strings.Cut(body, ":")
		if key != "" && body <= last[key] {
			t.Errorf("%s settled behind %s", body, last[key])
		}
		last[key] = body
	}
}

func TestAFailedMessageHoldsUpItsKeyAlone(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, keyed(10, "a", "b", "c", "")...)
	hopeless := errors.New("bad")
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "a:003" {
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Hour, hopeless)}
		}
		return applied
	}}
	r := consume(t, js, p, natssub.WithOrderBy(byKey))
	eventually(t, "all but those of one key", func() bool { return len(p.got()) >= 34 })
	// What has not run by the time that later messages of others have does not run: it was in hand.
	publish(t, js, "a:010", "b:010", "c:010", ":010")
	eventually(t, "later ones of the other keys", func() bool { return len(p.got()) >= 37 })
	r.stop()
	got := p.got()
	if len(got) != 37 {
		t.Errorf("%d runs, want 37: %v", len(got), got)
	}
	inOrder(t, got)
	if slices.Contains(got, "a:004") {
		t.Error("a:004 ran although a:003 is not settled")
	}
}

// Whatever fails, in batches or one by one: what takes effect of one key does so in its order.
func TestTheOrderOfAKeyIsKeptThroughFailures(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]natssub.Option{
		"single":       nil,
		"batches":      {natssub.WithBatch(7, time.Millisecond), natssub.WithConcurrency(4)},
		"small window": {natssub.WithPrefetch(8)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := startBroker(t).connect()
			makeStream(t, js)
			publish(t, js, keyed(40, "a", "b", "c", "d", "e", "")...)
			p := &batches{}
			done := make(chan string, 1000)
			p.process = func(_ context.Context, m dedup.Message) dedup.Result {
				switch rand.IntN(8) {
				case 0:
					return failed(store.FaultHandler, "bad luck")
				case 1:
					return failed(store.FaultBusy, "busy")
				}
				done <- string(m.Body)
				return applied
			}
			p.bury = func(_ context.Context, m dedup.Message, _ error) dedup.Result {
				done <- string(m.Body)
				return dedup.Result{Outcome: dedup.Buried}
			}
			r := consume(t, js, p, append(opts, natssub.WithOrderBy(byKey),
				natssub.WithPolicy(consumers.Policy{MaxAttempts: 3, MinDelay: time.Millisecond, MaxDelay: 3 * time.Millisecond}))...)
			settled(t, js)
			r.stop()
			close(done)
			var got []string
			for body := range done {
				got = append(got, body)
			}
			inOrder(t, got)
			if len(got) != 240 {
				t.Errorf("%d settled, want 240", len(got))
			}
			if i := info(t, js); i.Delivered.Consumer > 240+40*8 { // those without a key go back to the server
				t.Errorf("%d deliveries", i.Delivered.Consumer)
			}
		})
	}
}

// More than half of the hand waits behind one message, and all of the rest is done.
func TestOtherKeysAreFetchedWhileOneWaits(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, keyed(15, "a")...)
	publish(t, js, keyed(100, "b")...)
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "a:000" {
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Hour, errors.New("bad"))}
		}
		return applied
	}}
	r := consume(t, js, p, natssub.WithOrderBy(byKey), natssub.WithConcurrency(2), natssub.WithPrefetch(20))
	eventually(t, "all of the other key", func() bool { return len(p.got()) == 101 })
	r.stop()
	inOrder(t, p.got())
}

func TestAKeyFunctionThatPanicsEndsRunAndTheMessageStays(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	r := consume(t, js, &processor{}, natssub.WithOrderBy(func(dedup.Message) []byte { panic("no key") }))
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "panicked over message 1: no key") || errors.Is(err, natssub.ErrNotClean) {
		t.Errorf("Run: %v", err)
	}
	p := &processor{}
	o := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable}, p)
	settled(t, js)
	o.stop()
}
