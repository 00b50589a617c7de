package natssub_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
)

func TestARestartOfTheServerIsSurvived(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	p := &processor{}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p)
	for range 3 {
		publish(t, js, numbered(20)...)
		settled(t, js)
		b.stop()
		b.start()
		eventually(t, "reconnected", js.Conn().IsConnected)
	}
	publish(t, js, "last")
	settled(t, js)
	r.stop()
	if got := p.got(); len(got) < 61 || got[len(got)-1] != "last" {
		t.Errorf("%d messages processed", len(got))
	}
}

// The server delivers the message again, to the same process, while a handler is at it.
func TestAMessageInHandOverARestartOfTheServerRunsOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, "a")
	running, finish := make(chan struct{}, 10), make(chan struct{})
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		running <- struct{}{}
		<-finish
		return applied
	}}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p)
	receive(t, running)
	b.stop()
	time.Sleep(2 * shortWait) // The server sees the wait over when it is back.
	b.start()
	eventually(t, "delivered again", func() bool { return info(t, js).Delivered.Consumer > 1 })
	close(finish)
	settled(t, js)
	r.stop()
	if n := len(p.got()); n != 1 {
		t.Errorf("processed %d times, want once", n)
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) contain(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

// The client takes a plain acknowledgement into its buffer and reports success.
func TestAnAcknowledgementWhileDisconnectedIsNotTrusted(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, "a")
	running, finish := make(chan struct{}, 10), make(chan struct{})
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		running <- struct{}{}
		<-finish
		return applied
	}}
	log := &lines{}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p,
		natssub.WithAckLimit(100*time.Millisecond), natssub.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	receive(t, running)
	b.stop()
	close(finish)
	eventually(t, "a warning", func() bool { return log.contain("acknowledgement not confirmed") })
	b.start()
	settled(t, js)
	r.stop()
}

func TestRunEndsWhenTheDurableIsDeleted(t *testing.T) {
	t.Parallel()
	deletions := map[string]func(jetstream.JetStream) error{
		"durable": func(js jetstream.JetStream) error { return js.DeleteConsumer(context.Background(), stream, durable) },
		"stream":  func(js jetstream.JetStream) error { return js.DeleteStream(context.Background(), stream) },
	}
	for name, remove := range deletions {
		t.Run(name+" while waiting", func(t *testing.T) {
			t.Parallel()
			js := startBroker(t).connect()
			makeStream(t, js)
			r := consume(t, js, &processor{})
			eventually(t, "a request at the server", func() bool { return info(t, js).NumWaiting > 0 })
			if err := remove(js); err != nil {
				t.Fatal(err)
			}
			if err := r.wait(); !errors.Is(err, jetstream.ErrConsumerDeleted) || !strings.Contains(err.Error(), "was deleted") {
				t.Errorf("Run: %v", err)
			}
		})
		t.Run(name+" while the hand is full", func(t *testing.T) {
			t.Parallel()
			js := startBroker(t).connect()
			makeStream(t, js)
			publish(t, js, "a")
			running, finish := make(chan struct{}), make(chan struct{})
			r := consume(t, js, &processor{process: func(context.Context, dedup.Message) dedup.Result {
				running <- struct{}{}
				<-finish
				return applied
			}}, natssub.WithConcurrency(1), natssub.WithPrefetch(1))
			receive(t, running)
			if err := remove(js); err != nil {
				t.Fatal(err)
			}
			close(finish)
			err := r.wait()
			if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) || !strings.Contains(err.Error(), "was deleted") {
				t.Errorf("Run: %v", err)
			}
		})
		t.Run(name+" while disconnected", func(t *testing.T) {
			t.Parallel()
			b := startBroker(t)
			js := b.connect()
			makeStream(t, js)
			r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable}, &processor{})
			eventually(t, "a request at the server", func() bool { return info(t, js).NumWaiting > 0 })
			b.stop()
			b.files = t.TempDir() // It comes back without its files.
			b.start()
			err := r.wait()
			if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

func TestRunEndsWhenTheConnectionIsClosedForGood(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	r := consume(t, js, &processor{})
	eventually(t, "a request at the server", func() bool { return info(t, js).NumWaiting > 0 })
	begun := time.Now()
	js.Conn().Close()
	if err := r.wait(); !errors.Is(err, jetstream.ErrConnectionClosed) && !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("Run returned only after %s", took)
	}
}
