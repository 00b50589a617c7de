package natssub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// slowCheck is a processor whose check waits to be let go.
type slowCheck struct {
	processor
	asked, answer chan struct{}
}

func (s *slowCheck) Check(context.Context) error {
	close(s.asked)
	<-s.answer
	return nil
}

func unready(t *testing.T, c *natssub.Consumer, want string) {
	t.Helper()
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "natssub: ") {
		t.Errorf("Ready = %v, want %q", err, want)
	}
}

func TestReadyTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	p := &slowCheck{asked: make(chan struct{}), answer: make(chan struct{})}
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, p)
	if err != nil {
		t.Fatal(err)
	}
	unready(t, c, "Run has not been called")
	r := start(t, c)
	receive(t, p.asked)
	unready(t, c, "check")
	close(p.answer)
	eventually(t, "readiness", func() bool { return c.Ready() == nil })
	b.stop()
	eventually(t, "that the server is missed", func() bool { return c.Ready() != nil })
	unready(t, c, "the connection is RECONNECTING")
	b.start()
	eventually(t, "readiness", func() bool { return c.Ready() == nil })
	c.Pause()
	if err := c.Ready(); err != nil {
		t.Errorf("a paused consumer is not ready: %v", err)
	}
	r.stop()
	unready(t, c, "Run has ended")
}

func TestReadyIsOverOnceRunIsToEnd(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	p, begun, finish := blocker()
	c, r := startNew(t, js, p)
	receive(t, begun)
	r.cancel()
	eventually(t, "that it is over", func() bool { return c.Ready() != nil })
	finish <- struct{}{}
	r.stop()
}

// A server that is there and does not answer: the connection looks well.
func TestReadyMissesAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	makeStream(t, b.connect())
	js, proxy := b.connectThrough()
	c, r := startNew(t, js, &processor{})
	eventually(t, "readiness", func() bool { return c.Ready() == nil })
	proxy.Freeze()
	eventually(t, "that the server is missed", func() bool { return c.Ready() != nil })
	unready(t, c, "no heartbeat")
	proxy.Thaw()
	eventually(t, "readiness", func() bool { return c.Ready() == nil })
	r.stop()
}

func TestReadyTellsThatTheDurableIsGone(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	c, r := startNew(t, js, &processor{})
	eventually(t, "readiness", func() bool { return c.Ready() == nil })
	if err := js.DeleteConsumer(t.Context(), stream, durable); err != nil {
		t.Fatal(err)
	}
	if r.wait() == nil {
		t.Error("Run returned nil")
	}
	unready(t, c, "Run has ended")
}

func state(t *testing.T, c *natssub.Consumer) natssub.State {
	t.Helper()
	s, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStateTellsHowFarTheDurableIs(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	p, begun, finish := blocker()
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, p, natssub.WithConcurrency(2), natssub.WithPrefetch(4))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.State(t.Context()); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("State without a durable: %v", err)
	}
	before := time.Now()
	r := start(t, c)
	receive(t, begun)
	receive(t, begun)
	eventually(t, "the hand full", func() bool { return info(t, js).NumAckPending == 4 })
	if s := state(t, c); s.Pending != 6 || s.Delivered != 4 || s.InHand != 4 || s.Handling != 2 || s.Redelivered != 0 || s.Lag() != 10 || s.Paused {
		t.Errorf("state %+v", s)
	}
	begin := state(t, c).LastProgress
	if begin.Before(before) {
		t.Errorf("progress at %s, before Run began", begin)
	}
	finish <- struct{}{}
	eventually(t, "progress", func() bool { return state(t, c).LastProgress.After(begin) })
	receive(t, begun) // a message that begins is no progress, nor is time that passes, such as that of a look
	stuck := state(t, c).LastProgress
	if s := state(t, c); !s.LastProgress.Equal(stuck) {
		t.Errorf("progress at %s, though nothing was settled since %s", s.LastProgress, stuck)
	}
	for range 9 {
		finish <- struct{}{}
	}
	settled(t, js)
	// With nothing to do, an alarm on the age of the last progress stays quiet.
	at := time.Now()
	if s := state(t, c); s.Lag() != 0 || s.LastProgress.Before(at) {
		t.Errorf("state %+v at %s", s, at)
	}
	r.stop()
	if s := state(t, c); s.InHand != 0 || s.Handling != 0 {
		t.Errorf("state %+v after the end", s)
	}
}

func TestStateCountsWhatIsRedelivered(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Duration(m.Attempt-1)*time.Hour, errors.New("bad"))}
	}}
	c, r := startNew(t, js, p)
	eventually(t, "two failures", func() bool { return len(p.got()) == 2 })
	eventually(t, "the message waiting", func() bool {
		s := state(t, c)
		return s.Delivered == 1 && s.Redelivered == 1 && s.InHand == 0 && s.Lag() == 1
	})
	r.stop()
}

// At the limit delivery stops without a word, so it has to be seen from outside.
func TestStateTellsThatTheLimitOfDeliveredMessagesIsReached(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(5)...)
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Hour, errors.New("bad"))}
	}}
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable, MaxAckPending: 3}, p)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, c)
	eventually(t, "three failures", func() bool { return len(p.got()) == 3 })
	eventually(t, "the limit", func() bool {
		s := state(t, c)
		return s.Delivered == s.DeliveredLimit && s.DeliveredLimit == 3 && s.Pending == 2 && s.InHand == 0
	})
	if err := c.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	r.stop()
	if got := p.got(); len(got) != 3 {
		t.Errorf("handled %v", got)
	}
}

func TestStateOfAnUnreachableServerTellsWhatIsKnown(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, "a")
	p, begun, finish := blocker()
	c, r := startNew(t, js, p)
	receive(t, begun)
	b.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := c.State(ctx); err == nil || s.InHand != 1 || s.Handling != 1 || s.LastProgress.IsZero() {
		t.Errorf("state %+v, %v", s, err)
	}
	b.start()
	finish <- struct{}{}
	settled(t, js)
	r.stop()
}
