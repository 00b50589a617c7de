package inbox_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// capture is an appender that remembers events and stores nothing.
type capture struct{ events []store.Event }

func (c *capture) AppendTx(_ context.Context, _ *memstore.Tx, events []store.Event) error {
	c.events = append(c.events, events...)
	return nil
}

// keep returns the event that a writer makes of a message.
func keep(t testing.TB, m dedup.Message, opts ...inbox.WriterOption) store.Event {
	t.Helper()
	c := &capture{}
	w, err := inbox.NewWriter(c, "orders", opts...)
	if err != nil {
		t.Fatal(err)
	}
	key := func(dedup.Message) (dedup.Key, error) { return dedup.KeyOf([]byte("m1")) }
	g, err := dedup.NewTx(memstore.New(), "orders/inbox", key, dedup.Forever, w.KeepTx)
	if err != nil {
		t.Fatal(err)
	}
	if r := g.Process(t.Context(), m); r.Outcome != dedup.Applied {
		t.Fatalf("%v: %v", r.Outcome, r.Err)
	}
	return c.events[0]
}

func full() dedup.Message {
	return dedup.Message{
		Position: dedup.Position{Broker: "kafka", Log: "orders", Partition: 7, Offset: 1 << 40, Time: time.Unix(1764454800, 123456789).UTC()},
		Topic:    "orders",
		Key:      []byte("customer-1"),
		Headers:  []dedup.Header{{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "a", Value: []byte{}}},
		Body:     []byte("{}\x00\xff"),
	}
}

func TestAKeptMessageComesBackAsItWas(t *testing.T) {
	t.Parallel()
	with := func(change func(m *dedup.Message)) dedup.Message {
		m := full()
		change(&m)
		return m
	}
	for name, m := range map[string]dedup.Message{
		"full":             full(),
		"zero":             {},
		"nil key":          with(func(m *dedup.Message) { m.Key = nil }),
		"empty key":        with(func(m *dedup.Message) { m.Key = []byte{} }),
		"nil body":         with(func(m *dedup.Message) { m.Body = nil }),
		"empty body":       with(func(m *dedup.Message) { m.Body = []byte{} }),
		"nil headers":      with(func(m *dedup.Message) { m.Headers = nil }),
		"empty headers":    with(func(m *dedup.Message) { m.Headers = []dedup.Header{} }),
		"unnamed header":   with(func(m *dedup.Message) { m.Headers = []dedup.Header{{}} }),
		"zero time":        with(func(m *dedup.Message) { m.Position.Time = time.Time{} }),
		"before 1970":      with(func(m *dedup.Message) { m.Position.Time = time.Unix(-1, 1).UTC() }),
		"far away":         with(func(m *dedup.Message) { m.Position.Time = time.Unix(1<<40, 999999999).UTC() }),
		"negative place":   with(func(m *dedup.Message) { m.Position.Partition, m.Position.Offset = -1, math.MinInt64 }),
		"last place":       with(func(m *dedup.Message) { m.Position.Partition, m.Position.Offset = math.MaxInt, math.MaxInt64 }),
		"bytes, not text":  with(func(m *dedup.Message) { m.Topic, m.Position.Log, m.Position.Broker = "\xff\x00", "\x00", "\xfe" }),
		"a megabyte":       with(func(m *dedup.Message) { m.Body = bytes.Repeat([]byte("x"), 1<<20) }),
		"a thousand names": with(func(m *dedup.Message) { m.Headers = make([]dedup.Header, 1000) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := inbox.Message(keep(t, m))
			m.Attempt = 1
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("got %.200v (%v), want %.200v", got, err, m)
			}
		})
	}
}

// The time is the same moment to the nanosecond, and in UTC wherever it came from.
func TestTheTimeComesBackInUTC(t *testing.T) {
	t.Parallel()
	m := full()
	m.Position.Time = m.Position.Time.In(time.FixedZone("east", 3600))
	if got, err := inbox.Message(keep(t, m)); err != nil || got.Position.Time != full().Position.Time {
		t.Errorf("got %v (%v)", got.Position.Time, err)
	}
}

// What is kept today is read by the programs of next year.
func TestTheBytesOfVersion1(t *testing.T) {
	t.Parallel()
	m := full()
	want := "8e01" +
		"05" + hex.EncodeToString([]byte("kafka")) +
		"06" + hex.EncodeToString([]byte("orders")) +
		"0e" + // 7
		"808080808040" + // 1<<40
		"a0c6db920d" + "959aef3a" + // 1764454800 s, 123456789 ns
		"06" + hex.EncodeToString([]byte("orders")) +
		"0b" + hex.EncodeToString([]byte("customer-1")) +
		"04" + "0162" + "0231" + "0161" + "00" + "0161" + "01" +
		"05" + "7b7d00ff"
	if got := hex.EncodeToString(keep(t, m).Payload); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	payload, _ := hex.DecodeString(want)
	m.Attempt = 1
	if got, err := inbox.Message(store.Event{Payload: payload}); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %v (%v)", got, err)
	}
}

func TestWhatKeepsNoMessageIsAnError(t *testing.T) {
	t.Parallel()
	good := keep(t, full()).Payload
	bad := map[string][]byte{
		"nothing":          nil,
		"no bytes":         {},
		"magic alone":      {0x8e},
		"form zero":        {0x8e, 0},
		"text":             []byte("{}"),
		"a longer one":     append(bytes.Clone(good), 0),
		"endless number":   append([]byte{0x8e, 1}, bytes.Repeat([]byte{0xff}, 20)...),
		"too many headers": append([]byte{0x8e, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"long second":      {0x8e, 1, 0, 0, 0, 0, 0, 0x80, 0x94, 0xeb, 0xdc, 0x03, 0, 0, 0, 0},
	}
	for n := range good {
		bad["cut "+strings.Repeat("i", n)] = good[:n]
	}
	for name, payload := range bad {
		if m, err := inbox.Message(store.Event{Payload: payload}); err == nil || errors.Is(err, inbox.ErrNewer) {
			t.Errorf("%s: got %v (%v)", name, m, err)
		}
	}
}

func TestAMessageOfANewerVersionIsToldApart(t *testing.T) {
	t.Parallel()
	if _, err := inbox.Message(store.Event{Payload: []byte{0x8e, 2, 1, 2, 3}}); !errors.Is(err, inbox.ErrNewer) {
		t.Errorf("got %v", err)
	}
}

// A handler may write over its message; the relay still needs the event.
func TestAMessageSharesNoMemoryWithItsEvent(t *testing.T) {
	t.Parallel()
	e := keep(t, full())
	before := bytes.Clone(e.Payload)
	m, err := inbox.Message(e)
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]byte{m.Key, m.Headers[0].Value, m.Headers[2].Value, m.Body}
	for _, b := range parts {
		_ = append(b, "xxxxxx"...)
	}
	want := full()
	if want.Attempt = 1; !reflect.DeepEqual(m, want) {
		t.Errorf("one part of the message ran into another: %v", m)
	}
	for _, b := range parts {
		clear(b)
	}
	if !bytes.Equal(e.Payload, before) {
		t.Error("the event has changed")
	}
}

func FuzzMessageRoundTrip(f *testing.F) {
	f.Add("kafka", "orders", 3, int64(7), int64(1764454800), uint32(5), "orders", []byte("k"), []byte("body"), "h", []byte("v"), byte(0))
	f.Add("", "", 0, int64(0), int64(-62135596800), uint32(0), "", []byte(nil), []byte(nil), "", []byte(nil), byte(0xff))
	f.Fuzz(func(t *testing.T, broker, log string, partition int, offset, seconds int64, nanos uint32, topic string, key, body []byte, name string, value []byte, nils byte) {
		m := dedup.Message{
			Position: dedup.Position{Broker: broker, Log: log, Partition: partition, Offset: offset, Time: time.Unix(seconds>>8, int64(nanos%1e9)).UTC()},
			Topic:    topic, Key: key, Body: body,
			Headers: []dedup.Header{{Key: name, Value: value}, {Key: topic, Value: nil}, {Value: []byte{}}},
		}
		if nils&1 != 0 {
			m.Key = nil
		}
		if nils&2 != 0 {
			m.Body = nil
		}
		if nils&4 != 0 {
			m.Headers = nil
		}
		got, err := inbox.Message(keep(t, m))
		m.Attempt = 1
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %v (%v), want %v", got, err, m)
		}
	})
}

// Whatever lies in the table, reading it neither panics nor takes memory that it does not have.
func FuzzMessageOfAnyBytes(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x8e, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(keep(f, full()).Payload)
	f.Add(append([]byte{0x8e, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := inbox.Message(store.Event{Payload: payload})
		if err != nil {
			return
		}
		again, err := inbox.Message(keep(t, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%x is read as %v and then as %v (%v)", payload, m, again, err)
		}
	})
}
