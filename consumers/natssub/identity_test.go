package natssub_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestAMessageIsHandedOverAsTheStreamHoldsIt(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	s := makeStream(t, js)
	body := []byte("\x00\xff{}")
	for _, msg := range []*nats.Msg{
		{Subject: "orders.new.7", Data: body, Header: nats.Header{"b": {"2", "1"}, "B": {"x"}, "a": {""}}},
		{Subject: "orders.gone"},
	} {
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	p := &processor{}
	r := consume(t, js, p)
	settled(t, js)
	r.stop()

	for _, m := range p.messages() {
		raw, err := s.GetMsg(t.Context(), uint64(m.Position.Offset))
		if err != nil {
			t.Fatal(err)
		}
		want := dedup.Position{Broker: "nats", Log: stream, Offset: int64(raw.Sequence), Time: m.Position.Time}
		if m.Position != want || !m.Position.Time.Equal(raw.Time) {
			t.Errorf("position %+v, want %+v at %s", m.Position, want, raw.Time)
		}
		if m.Topic != raw.Subject || m.Key != nil || m.Attempt != 1 {
			t.Errorf("topic %q, key %q, attempt %d", m.Topic, m.Key, m.Attempt)
		}
		if raw.Sequence == 2 {
			if m.Body != nil || m.Headers != nil {
				t.Errorf("an empty message has body %q and headers %v", m.Body, m.Headers)
			}
			continue
		}
		if !bytes.Equal(m.Body, body) {
			t.Errorf("body %q", m.Body)
		}
		wantHeaders := []dedup.Header{{Key: "B", Value: []byte("x")}, {Key: "a", Value: []byte("")}, {Key: "b", Value: []byte("2")}, {Key: "b", Value: []byte("1")}}
		if len(m.Headers) != len(wantHeaders) {
			t.Fatalf("headers %v", m.Headers)
		}
		for i, h := range wantHeaders {
			if m.Headers[i].Key != h.Key || !bytes.Equal(m.Headers[i].Value, h.Value) {
				t.Errorf("header %d is %s=%q, want %s=%q", i, m.Headers[i].Key, m.Headers[i].Value, h.Key, h.Value)
			}
		}
	}
}

func key(t *testing.T, m dedup.Message) store.Key {
	t.Helper()
	k, err := dedup.FromCoordinates()(m)
	if err != nil {
		t.Fatal(err)
	}
	return k.Stored()
}

func TestARedeliveredMessageHasItsFirstKey(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Attempt < 3 {
			return failed(store.FaultHandler, "bad")
		}
		return applied
	}}
	r := consume(t, js, p, quick)
	settled(t, js)
	r.stop()
	ms := p.messages()
	if len(ms) != 3 || key(t, ms[0]) != key(t, ms[1]) || key(t, ms[0]) != key(t, ms[2]) {
		t.Errorf("%d deliveries with different keys", len(ms))
	}
}

// The sequence begins at one again in a stream that is made again.
func TestTheSamePlaceInAStreamMadeAgainHasAnotherKey(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	p := &processor{}
	for range 2 {
		makeStream(t, js)
		publish(t, js, "a")
		r := consume(t, js, p)
		settled(t, js)
		r.stop()
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	ms := p.messages()
	if len(ms) != 2 || ms[0].Position.Offset != ms[1].Position.Offset {
		t.Fatalf("messages at %v", ms)
	}
	if key(t, ms[0]) == key(t, ms[1]) {
		t.Error("two messages have one key")
	}
}

// A server that loses the stream's files, but not the durable's, counts from one again.
func TestNothingNewIsTakenForADuplicateAfterTheStreamLostItsState(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.files = t.TempDir()
	b.start()
	js := b.connect()
	makeStream(t, js)
	s := memstore.New()
	g := guard(t, s, never)
	publish(t, js, "a", "b")
	r := consume(t, js, g)
	settled(t, js)
	r.stop()

	b.stop()
	files, err := filepath.Glob(filepath.Join(b.files, "jetstream", "*", "streams", stream, "msgs"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the stream's files are not where they were: %v, %v", files, err)
	}
	if err := os.RemoveAll(files[0]); err != nil {
		t.Fatal(err)
	}
	b.start()
	eventually(t, "reconnected", js.Conn().IsConnected)
	log := &lines{}
	r = consume(t, js, g, natssub.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	eventually(t, "a report", func() bool {
		return log.contain("level=WARN") && log.contain("the stream counts from its beginning again")
	})
	publish(t, js, "c", "d")
	settled(t, js)
	r.stop()
	for _, body := range []string{"a", "b", "c", "d"} {
		if n := s.Get("effect/" + body); n != 1 {
			t.Errorf("%s took effect %d times, want once", body, n)
		}
	}
}

// A durable that was deleted begins anew; the marks absorb what comes again.
func TestADurableThatIsMadeAgainReplaysTheStreamAndTheMarksAbsorbIt(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	s := memstore.New()
	g := guard(t, s, never)
	for range 2 {
		r := consume(t, js, g)
		settled(t, js)
		r.stop()
		if i := info(t, js); i.Delivered.Consumer != 10 {
			t.Errorf("%d deliveries, want 10", i.Delivered.Consumer)
		}
		if err := js.DeleteConsumer(t.Context(), stream, durable); err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range numbered(10) {
		if n := s.Get("effect/" + body); n != 1 {
			t.Errorf("%s took effect %d times, want once", body, n)
		}
	}
}
