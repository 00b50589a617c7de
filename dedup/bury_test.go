package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

var place = dedup.Position{Broker: "kafka", Log: "orders", Partition: 3, Offset: 42, Time: time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.UTC)}

func letters(t *testing.T, s store.DeadLetters) []store.DeadLetter {
	t.Helper()
	dead, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return dead
}

func TestBuryKeepsWhatIsNeededToUnderstandAndToRunAgain(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, add)
	m := dedup.Message{
		Position: place, Topic: "orders.eu", Key: []byte("customer"), Body: []byte{}, Attempt: 7,
		Headers: []dedup.Header{{Key: "id", Value: []byte("a")}, {Key: "trace", Value: []byte{0, 255}}},
	}
	wantResult(t, g.Bury(t.Context(), m, fmt.Errorf("book: %w", errors.New("no such account"))), dedup.Buried, 0)
	wantRecord(t, b, "begin [new]", "commit: committed")
	dead := letters(t, b)
	if len(dead) != 1 {
		t.Fatalf("%d letters", len(dead))
	}
	d := dead[0]
	if d.Consumer != "consumer" || string(d.KeyText) != "a" || d.Key != store.DigestKey([]byte("a")) ||
		d.Broker != "kafka" || d.Log != "orders" || d.Partition != 3 || d.Offset != 42 || !d.Time.Equal(place.Time) ||
		d.Topic != "orders.eu" || string(d.MessageKey) != "customer" || d.Body == nil || len(d.Body) != 0 ||
		len(d.Headers) != 2 || string(d.Headers[1].Value) != "\x00\xff" || d.Attempts != 7 || d.Reason != "book: no such account" {
		t.Errorf("the letter is %+v", d)
	}
	// It is done now: delivered again, or buried again, it is a duplicate.
	wantResult(t, g.Process(t.Context(), m), dedup.Duplicate, 0)
	wantResult(t, g.Bury(t.Context(), m, nil), dedup.Duplicate, 0)
	if n := len(letters(t, b)); n != 1 {
		t.Errorf("%d letters", n)
	}
	wantEffects(t, b, map[string]int64{"a": 0})
	b.idle(t)
}

func TestBuryOfAMessageThatIsDone(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, add)
	wantResult(t, g.Process(t.Context(), message("a")), dedup.Applied, 0)
	wantResult(t, g.Bury(t.Context(), message("a"), errors.New("too late")), dedup.Duplicate, 0)
	if n := len(letters(t, b)); n != 0 {
		t.Errorf("%d letters of a message that was applied", n)
	}
}

// A message without a key is told from others by its place, and its mark is not that of a key
// function that takes places.
func TestBuryOfAMessageWithoutAKey(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, add)
	m := dedup.Message{Position: place, Body: []byte("not JSON")}
	_, keyErr := dedup.FromHeader("id")(m)
	wantResult(t, g.Bury(t.Context(), m, keyErr), dedup.Buried, 0)
	wantResult(t, g.Bury(t.Context(), m, keyErr), dedup.Duplicate, 0)
	other := m
	other.Position.Offset++
	wantResult(t, g.Bury(t.Context(), other, keyErr), dedup.Buried, 0)
	// The same place in a topic that was made again holds another message.
	again := m
	again.Position.Time = again.Position.Time.Add(time.Nanosecond)
	wantResult(t, g.Bury(t.Context(), again, keyErr), dedup.Buried, 0)
	dead := letters(t, b)
	if len(dead) != 3 || len(dead[0].KeyText) != 0 || !strings.Contains(dead[0].Reason, `no key: there is no header "id"`) {
		t.Errorf("the letters are %+v", dead)
	}

	byPlace, err := dedup.NewTx(b, "consumer", dedup.FromCoordinates(), dedup.Forever, txHandler(add))
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, byPlace.Process(t.Context(), m), dedup.Applied, 0)

	// With neither key nor place nothing would keep it from being buried twice.
	r := g.Bury(t.Context(), dedup.Message{}, keyErr)
	wantResult(t, r, dedup.Failed, store.FaultHandler)
	if !dedup.IsPermanent(r.Err) || !errors.Is(r.Err, dedup.ErrNoKey) {
		t.Errorf("the error is %v", r.Err)
	}
	b.idle(t)
}

func TestBuryCutsWhatIsLong(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, func(context.Context, *memstore.Tx, dedup.Message) error { panic("lost my way") })
	long := strings.Repeat("k", 1000)
	panicked := g.Process(t.Context(), message(long)).Err
	wantResult(t, g.Bury(t.Context(), message(long), panicked), dedup.Buried, 0)
	wantResult(t, g.Bury(t.Context(), message("a"), errors.New(strings.Repeat("r", 1<<20))), dedup.Buried, 0)
	wantResult(t, g.Bury(t.Context(), message("b"), nil), dedup.Buried, 0)
	dead := letters(t, b)
	if len(dead[0].KeyText) != 256 || dead[0].Key != store.DigestKey([]byte(long)) {
		t.Errorf("the text of the key has %d bytes", len(dead[0].KeyText))
	}
	if r := dead[0].Reason; !strings.HasPrefix(r, "handler panicked: lost my way\n\n") || !strings.Contains(r, "bury_test.go") {
		t.Errorf("the reason of a panic has no stack: %.200s", r)
	}
	if n := len(dead[1].Reason); n != 16<<10 {
		t.Errorf("the reason has %d bytes", n)
	}
	if dead[2].Reason != "given up without a reason" {
		t.Errorf("the reason is %q", dead[2].Reason)
	}
}

func TestBuryThatCannotEnd(t *testing.T) {
	t.Parallel()
	b := newBent()
	b.commit = func(n int, real func() (store.End, error)) (store.End, error) {
		switch n {
		case 1:
			return store.RolledBack, &faulty{store.FaultConflict} // is tried again
		case 2:
			_, _ = real()
			return store.Unknown, &faulty{store.FaultOutage}
		}
		return real()
	}
	g := guardOn(t, b, add)
	wantResult(t, g.Bury(t.Context(), message("a"), nil), dedup.Unknown, store.FaultOutage)
	wantResult(t, g.Bury(t.Context(), message("a"), nil), dedup.Duplicate, 0)
	if n := len(letters(t, b)); n != 1 {
		t.Errorf("%d letters", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantResult(t, g.Bury(ctx, message("b"), nil), dedup.Failed, store.FaultCanceled)
	b.idle(t)
}

func TestBuryInAStoreWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	g := guardOn(t, struct{ store.Marks[*memstore.Tx] }{memstore.New()}, add)
	r := g.Bury(t.Context(), message("a"), nil)
	wantResult(t, r, dedup.Failed, store.FaultSetup)
	if want := "dedup: bury: struct { store.Marks[*github.com/semel-dev/semel/store/memstore.Tx] } keeps no dead letters"; r.Err.Error() != want {
		t.Errorf("the error is %q, want %q", r.Err, want)
	}
}

// A letter that cannot be written leaves the message as it was.
func TestBuryThatCannotWrite(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, &noGrave{b}, add)
	wantResult(t, g.Bury(t.Context(), message("a"), nil), dedup.Failed, store.FaultSetup)
	b.idle(t)
	wantResult(t, guardOn(t, b, add).Process(t.Context(), message("a")), dedup.Applied, 0)
}

type noGrave struct{ *bent }

func (*noGrave) BuryTx(context.Context, *memstore.Tx, store.DeadLetter) error {
	return &faulty{store.FaultSetup}
}
