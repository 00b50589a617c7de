package natspub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, append([]nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.MaxReconnects(-1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := conn.StatusChanged(nats.CLOSED)
		conn.Close()
		<-closed
	})
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// server starts one with the stream ORDERS on the subjects orders.>, changed as the test
// likes.
func server(t *testing.T, change func(*jetstream.StreamConfig), opts ...servers.NATSOption) (*servers.NATS, jetstream.JetStream) {
	t.Helper()
	s := servertest.StartNATS(t, opts...)
	js := connect(t, s.URL())
	c := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}
	if change != nil {
		change(&c)
	}
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return s, js
}

func publisher(t *testing.T, js jetstream.JetStream, opts ...natspub.Option) *natspub.Publisher {
	t.Helper()
	p, err := natspub.New(js, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func event(subject, key, payload string) store.Event {
	e := store.Event{ID: store.NewID(), Destination: "nats", Topic: subject, Payload: []byte(payload)}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

func numbered(subject, key string, n int) []store.Event {
	var events []store.Event
	for i := range n {
		events = append(events, event(subject, key, fmt.Sprintf("%s%02d", key, i)))
	}
	return events
}

// stored returns what the stream holds, in its order.
func stored(t *testing.T, js jetstream.JetStream) []*jetstream.RawStreamMsg {
	t.Helper()
	s, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs == 0 {
		return nil
	}
	var all []*jetstream.RawStreamMsg
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func bodies(msgs []*jetstream.RawStreamMsg) []string {
	var all []string
	for _, m := range msgs {
		all = append(all, string(m.Data))
	}
	return all
}

func expect(t *testing.T, errs []error, want ...outbox.Verdict) {
	t.Helper()
	if errs == nil {
		errs = make([]error, len(want))
	}
	if len(errs) != len(want) {
		t.Fatalf("%d results for %d events: %v", len(errs), len(want), errs)
	}
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != want[i] {
			t.Errorf("event %d: %s (%v), want %s", i, got, err, want[i])
		}
	}
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
