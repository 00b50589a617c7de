package natssub_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/consumertest"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
)

func TestExam(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		order consumertest.Order
		opts  []natssub.Option
	}{
		{"by default", consumertest.Unordered, nil},
		{"WithOrder", consumertest.InOrder, []natssub.Option{natssub.WithOrder()}},
		{"WithOrderBy", consumertest.PerKey, []natssub.Option{natssub.WithOrderBy(bySubject)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			consumertest.TestConsumer(t, consumertest.Harness{
				New:      func(t *testing.T) consumertest.Place { return examPlace(t, c.opts) },
				Order:    c.order,
				NotClean: natssub.ErrNotClean,
				Overtime: 10 * time.Second, // a second of rolling back, a few ack limits, and a busy machine
				Seen:     asNATSHasIt,
				Lacks:    map[consumertest.Ability]string{consumertest.Keys: "a message of NATS has no key"},
			})
		})
	}
}

func bySubject(m dedup.Message) []byte { return []byte(m.Topic) }

// asNATSHasIt: no key, headers by name, and no empty body.
func asNATSHasIt(m consumertest.Message) consumertest.Message {
	m.Key = nil
	m.Headers = slices.Clone(m.Headers)
	slices.SortStableFunc(m.Headers, func(a, b dedup.Header) int { return strings.Compare(a.Key, b.Key) })
	if len(m.Body) == 0 {
		m.Body = nil
	}
	return m
}

func examPlace(t *testing.T, opts []natssub.Option) consumertest.Place {
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	return consumertest.Place{
		Publish: func(ms ...consumertest.Message) {
			t.Helper()
			for _, m := range ms {
				msg := &nats.Msg{Subject: "orders.key-" + string(m.Key), Data: m.Body, Header: nats.Header{}}
				for _, h := range m.Headers {
					msg.Header[h.Key] = append(msg.Header[h.Key], string(h.Value))
				}
				if _, err := js.PublishMsg(t.Context(), msg, jetstream.WithRetryAttempts(100), jetstream.WithRetryWait(50*time.Millisecond)); err != nil {
					t.Fatal(err)
				}
			}
		},
		Left: func() int { return left(t, js) },
		Open: func(p dedup.Processor, s consumertest.Settings) (consumertest.Consumer, error) {
			return examConsumer(t, b, p, s, opts)
		},
		Remake: func() {
			if err := js.DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			makeStream(t, js)
		},
		Restart: func() {
			b.stop()
			b.start()
			eventually(t, "reconnected", js.Conn().IsConnected)
		},
	}
}

// left counts what the durable has not heard of, and all of the stream where there is no durable yet.
func left(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	n := -1
	eventually(t, "an answer of the server", func() bool {
		s, err := js.Stream(t.Context(), stream)
		if err != nil {
			return false
		}
		c, err := s.Consumer(t.Context(), durable)
		switch {
		case err == nil:
			n = int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			n = int(s.CachedInfo().State.Msgs)
		}
		return n >= 0
	})
	return n
}

// examConsumer has a connection of its own, through a proxy.
func examConsumer(t *testing.T, b *broker, p dedup.Processor, s consumertest.Settings, opts []natssub.Option) (consumertest.Consumer, error) {
	t.Helper()
	js, proxy := b.connectThrough()
	// The first request starts a goroutine for all answers, which lives as long as the connection.
	if _, err := js.AccountInfo(t.Context()); err != nil {
		t.Fatal(err)
	}
	opts = append([]natssub.Option{natssub.WithPolicy(s.Policy), natssub.WithDrain(s.Drain), natssub.WithAckLimit(time.Second)}, opts...)
	if s.WithoutDeadLetters {
		opts = append(opts, natssub.WithoutDeadLetters())
	}
	if s.Batch > 0 {
		opts = append(opts, natssub.WithBatch(s.Batch, s.Linger))
	}
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable, AckWait: 3 * time.Second}, p, opts...)
	if err != nil {
		return consumertest.Consumer{}, err
	}
	return consumertest.Consumer{
		Run: c.Run, Freeze: proxy.Freeze, Thaw: proxy.Thaw,
		Kill: func() { _ = proxy.Close() },
	}, nil
}
