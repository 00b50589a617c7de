package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// Lanes and ids are stored, so they never change.
func TestWhatIsStored(t *testing.T) {
	t.Parallel()
	m := full()
	e := keep(t, m)
	want := store.ChildID(store.Origin{Consumer: "orders/inbox", Key: store.DigestKey([]byte("m1"))}.ID(), "inbox/orders")
	if e.ID != want || e.Destination != "orders" || string(e.Key) != "customer-1" || e.Type != "orders" || e.Topic != "lane-232" {
		t.Errorf("%v %q %q %q %q", e.ID, e.Destination, e.Key, e.Type, e.Topic)
	}
	if again := keep(t, m); again.ID != e.ID || again.Topic != e.Topic {
		t.Errorf("kept again it is %v in %s", again.ID, again.Topic)
	}
}

func TestMessagesWithoutAKeyHaveNoOrder(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, {}} {
		m := full()
		m.Key = key
		e := keep(t, m)
		if want := fmt.Sprintf("lane-%03d", e.ID[0]); e.Key != nil || e.Topic != want {
			t.Errorf("key %v in %s, want none and %s", e.Key, e.Topic, want)
		}
	}
}

// All messages of an ordering key are in one lane, whatever their topic.
func TestTheOrderingKeyDecidesTheLane(t *testing.T) {
	t.Parallel()
	order := inbox.WithOrder(func(m dedup.Message) []byte { return m.Body })
	a, b := full(), full()
	a.Topic, b.Topic, a.Key, b.Key = "orders.created", "orders.paid", []byte("1"), []byte("2")
	first, second := keep(t, a, order), keep(t, b, order)
	if first.Topic != second.Topic || !bytes.Equal(first.Key, a.Body) || !bytes.Equal(second.Key, a.Body) {
		t.Errorf("%s %q and %s %q", first.Topic, first.Key, second.Topic, second.Key)
	}
	lanes := map[string]bool{}
	for i := range 2000 {
		a.Body = []byte(fmt.Sprint("customer-", i))
		lanes[keep(t, a, order).Topic] = true
	}
	if len(lanes) != 256 {
		t.Errorf("2000 keys are in %d lanes", len(lanes))
	}
}

func TestAKeyThatIsTooLongStillOrders(t *testing.T) {
	t.Parallel()
	long, other := full(), full()
	long.Key = []byte(strings.Repeat("k", 5000))
	other.Key = []byte(strings.Repeat("k", 4999))
	first, again, third := keep(t, long), keep(t, long), keep(t, other)
	if !bytes.Equal(first.Key, again.Key) || bytes.Equal(first.Key, third.Key) || first.Topic != again.Topic {
		t.Errorf("%q %q %q", first.Key, again.Key, third.Key)
	}
	if m, err := inbox.Message(first); err != nil || !bytes.Equal(m.Key, long.Key) {
		t.Errorf("the message has another key: %v", err)
	}
}

func TestATopicThatIsNoTextIsKept(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"", "\x00\xff", strings.Repeat("ä", 200), strings.Repeat("x", 254) + "ä"} {
		m := full()
		m.Topic = topic
		if got, err := inbox.Message(keep(t, m)); err != nil || got.Topic != topic {
			t.Errorf("%q is %q (%v)", topic, got.Topic, err)
		}
	}
}

func TestAMessageThatIsTooLargeIsPermanent(t *testing.T) {
	t.Parallel()
	c := &capture{}
	w, err := inbox.NewWriter(c, "orders")
	if err != nil {
		t.Fatal(err)
	}
	g, err := dedup.NewTx(memstore.New(), "in", dedup.FromHeader("b"), dedup.Forever, w.KeepTx)
	if err != nil {
		t.Fatal(err)
	}
	m := full()
	m.Body = make([]byte, 64<<20)
	if r := g.Process(t.Context(), m); r.Outcome != dedup.Failed || !dedup.IsPermanent(r.Err) || len(c.events) > 0 {
		t.Errorf("%v: %v", r.Outcome, r.Err)
	}
}

// unwilling is an appender that fails.
type unwilling struct{ error }

func (u unwilling) AppendTx(context.Context, *memstore.Tx, []store.Event) error { return u.error }

func TestAFailureOfTheStoreIsNoFailureOfTheMessage(t *testing.T) {
	t.Parallel()
	cause := errors.New("away")
	w, err := inbox.NewWriter(unwilling{cause}, "orders")
	if err != nil {
		t.Fatal(err)
	}
	g, err := dedup.NewTx(memstore.New(), "in", dedup.FromHeader("b"), dedup.Forever, w.KeepTx)
	if err != nil {
		t.Fatal(err)
	}
	if r := g.Process(t.Context(), full()); r.Outcome != dedup.Failed || !errors.Is(r.Err, cause) || dedup.IsPermanent(r.Err) {
		t.Errorf("%v: %v", r.Outcome, r.Err)
	}
}

func TestAWriterWakesAfterTheCommitAlone(t *testing.T) {
	t.Parallel()
	woken := 0
	s := memstore.New()
	w, err := inbox.NewWriter(s, "orders", inbox.WithWake(func() { woken++ }))
	if err != nil {
		t.Fatal(err)
	}
	fail := true
	g, err := dedup.NewTx(s, "in", dedup.FromHeader("b"), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if err := w.KeepTx(ctx, tx, m); err != nil || !fail {
			return err
		}
		return errors.New("no")
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Process(t.Context(), full())
	if woken != 0 {
		t.Error("woken for what was rolled back")
	}
	fail = false
	if g.Process(t.Context(), full()); woken != 1 {
		t.Errorf("woken %d times", woken)
	}
}

func TestAWriterRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	c := &capture{}
	for name, try := range map[string]func() error{
		"no appender":    func() error { _, err := inbox.NewWriter[*memstore.Tx](nil, "orders"); return err },
		"no destination": func() error { _, err := inbox.NewWriter(c, ""); return err },
		"a long name":    func() error { _, err := inbox.NewWriter(c, strings.Repeat("x", 201)); return err },
		"no order":       func() error { _, err := inbox.NewWriter(c, "orders", inbox.WithOrder(nil)); return err },
		"no wake":        func() error { _, err := inbox.NewWriter(c, "orders", inbox.WithWake(nil)); return err },
		"a nil option":   func() error { _, err := inbox.NewWriter(c, "orders", nil); return err },
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
