package outbox_test

import (
	"bytes"
	"testing"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

func TestEventsArriveAndAreForgotten(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	id := store.NewID()
	want := store.Event{
		ID: id, Destination: "kafka", Topic: "orders", Key: []byte("k\x00\xff"), Type: "order.made",
		Payload: []byte("p\x00\xfe"),
		Headers: []store.Header{{Key: "a", Value: []byte("\x00\xfd")}, {Key: "nil"}, {Key: "empty", Value: []byte{}}},
	}
	b.write(want)
	rec.wait(t, 1)
	got := rec.events()[0]
	if got.ID != id || got.Topic != "orders" || got.Type != "order.made" || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Payload, want.Payload) {
		t.Errorf("the event came back as %+v", got)
	}
	h := got.Headers
	if len(h) != 3 || string(h[0].Value) != "\x00\xfd" || h[1].Value != nil || h[2].Value == nil || len(h[2].Value) != 0 {
		t.Errorf("the headers came back as %q", h)
	}
	eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
}

func TestNilAndEmptyPayloadsAndKeysDiffer(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	b.write(
		store.Event{Destination: "kafka", Topic: "t", Type: "nil"},
		store.Event{Destination: "kafka", Topic: "t", Type: "empty", Key: []byte{}, Payload: []byte{}},
	)
	rec.wait(t, 2)
	for _, e := range rec.events() {
		if isNil := e.Type == "nil"; (e.Payload == nil) != isNil || (e.Key == nil) != isNil {
			t.Errorf("%s: payload %#v, key %#v", e.Type, e.Payload, e.Key)
		}
	}
}
