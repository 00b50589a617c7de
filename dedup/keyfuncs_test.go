package dedup_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func wantKey(t *testing.T, f dedup.KeyFunc, m dedup.Message, want string) {
	t.Helper()
	k, err := f(m)
	if err != nil || string(k.Bytes()) != want {
		t.Errorf("the key is %q, %v, want %q", k.Bytes(), err, want)
	}
}

func wantNoKey(t *testing.T, f dedup.KeyFunc, m dedup.Message, want string) {
	t.Helper()
	if k, err := f(m); !errors.Is(err, dedup.ErrNoKey) || err.Error() != want {
		t.Errorf("the key is %q, %v\nwant the error %s", k.Bytes(), err, want)
	}
}

func headers(pairs ...string) dedup.Message {
	var m dedup.Message
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, dedup.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return m
}

func TestFromHeader(t *testing.T) {
	t.Parallel()
	f := dedup.FromHeader("Event-Id")
	wantKey(t, f, headers("a", "1", "Event-Id", "first", "Event-Id", "second"), "first")
	wantKey(t, f, headers("Event-Id", " x\x00\xff "), " x\x00\xff ")
	wantNoKey(t, f, headers("event-id", "1"), `no key: there is no header "Event-Id"`)
	wantNoKey(t, f, headers(), `no key: there is no header "Event-Id"`)
	wantNoKey(t, f, headers("Event-Id", "", "Event-Id", "second"), `header "Event-Id": no key: the identity is empty`)
}

func TestFirstOf(t *testing.T) {
	t.Parallel()
	f := dedup.FirstOf(dedup.FromHeader("a"), dedup.FromJSON("/id"), dedup.FromHeader("b"))
	with := func(m dedup.Message, body string) dedup.Message { m.Body = []byte(body); return m }
	wantKey(t, f, with(headers("b", "2", "a", "1"), `{"id":"3"}`), "1")
	wantKey(t, f, with(headers("b", "2", "a", ""), `{"id":"3"}`), "3")
	wantKey(t, f, with(headers("b", "2"), `{"id":null}`), "2")
	wantNoKey(t, f, with(headers(), `{}`), `no key: there is no header "b"`)
	// A bad key is not a missing one: the next would tell copies of one message apart.
	if _, err := f(with(headers("b", "2"), `{"id":`)); err == nil || errors.Is(err, dedup.ErrNoKey) {
		t.Errorf("a broken body: %v", err)
	}
	if _, err := f(headers("a", string(make([]byte, 5000)), "b", "2")); !errors.Is(err, dedup.ErrKeyTooLong) {
		t.Errorf("a long key: %v", err)
	}
}

// The third wall: a topic or stream that is deleted and made again uses its offsets again for
// other messages. Without the time in it, the first messages of the new one would be skipped.
func TestCoordinatesHoldTheTime(t *testing.T) {
	t.Parallel()
	f := dedup.FromCoordinates()
	k, err := f(dedup.Message{Position: place})
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := k.Stored().Time(); !ok || !at.Equal(place.Time.Truncate(time.Millisecond)) {
		t.Errorf("the key begins with %s, want the record's time", at)
	}
	same := place
	same.Time = place.Time.In(time.FixedZone("elsewhere", -7200))
	if again, _ := f(dedup.Message{Position: same, Topic: "t", Key: []byte("k"), Body: []byte("b"), Attempt: 3, Headers: []dedup.Header{{}}}); again.Stored() != k.Stored() {
		t.Error("a second delivery has another key")
	}
	change := func(c func(p *dedup.Position)) dedup.Position {
		p := place
		c(&p)
		return p
	}
	for what, p := range map[string]dedup.Position{
		"a nanosecond later":  change(func(p *dedup.Position) { p.Time = p.Time.Add(1) }),
		"a millisecond later": change(func(p *dedup.Position) { p.Time = p.Time.Add(time.Millisecond) }),
		"a year later":        change(func(p *dedup.Position) { p.Time = p.Time.AddDate(1, 0, 0) }),
		"another offset":      change(func(p *dedup.Position) { p.Offset++ }),
		"a negative offset":   change(func(p *dedup.Position) { p.Offset = -p.Offset }),
		"another partition":   change(func(p *dedup.Position) { p.Partition++ }),
		"another log":         change(func(p *dedup.Position) { p.Log = "order" }),
		"another broker":      change(func(p *dedup.Position) { p.Broker = "nats" }),
		"a letter moved":      change(func(p *dedup.Position) { p.Broker, p.Log = "kafkao", "rders" }),
	} {
		other, err := f(dedup.Message{Position: p})
		if err != nil {
			t.Fatal(err)
		}
		if other.Stored() == k.Stored() || other.Stored().ID == k.Stored().ID {
			t.Errorf("%s has the same key", what)
		}
		// Not the prefix alone holds the time: two times of one millisecond differ behind it.
		if a, b := k.Stored().ID, other.Stored().ID; string(a[6:]) == string(b[6:]) {
			t.Errorf("%s has the same digest", what)
		}
	}
	wantNoKey(t, f, dedup.Message{Position: change(func(p *dedup.Position) { p.Time = time.Time{} })}, `no key: a message from "kafka" has no place in a log`)
	wantNoKey(t, f, dedup.Message{Position: change(func(p *dedup.Position) { p.Log = "" })}, `no key: a message from "kafka" has no place in a log`)
}

// A key of a place is for ever, too. The value was computed elsewhere.
func TestCoordinatesAreStoredLikeThisForEver(t *testing.T) {
	t.Parallel()
	k, err := dedup.FromCoordinates()(dedup.Message{Position: place})
	if err != nil {
		t.Fatal(err)
	}
	if want := "018df4bc-567b-851a-a3ab-42f3e751bf57"; k.Stored().ID.String() != want {
		t.Errorf("the key is %s, want %s", k.Stored().ID, want)
	}
	if want := "\x05kafka\x06orders\x06T"; string(k.Bytes()) != want {
		t.Errorf("the identity is %q, want %q", k.Bytes(), want)
	}
}

func TestComposite(t *testing.T) {
	t.Parallel()
	f := dedup.Composite(dedup.FromHeader("tenant"), dedup.FromHeader("invoice"))
	wantKey(t, f, headers("tenant", "acme", "invoice", "7"), "acme/7")
	wantNoKey(t, f, headers("tenant", "acme"), `no key: there is no header "invoice"`)
	wantNoKey(t, f, headers("tenant", "", "invoice", "7"), `header "tenant": no key: the identity is empty`)

	stored := func(f dedup.KeyFunc, m dedup.Message) store.Key {
		k, err := f(m)
		if err != nil {
			t.Fatal(err)
		}
		if k.Stored().Timed {
			t.Error("a part's time orders the whole")
		}
		return k.Stored()
	}
	all := map[store.Key]string{}
	for _, pair := range [][2]string{
		{"a", "b"}, {"b", "a"}, {"a/b", "c"}, {"a", "b/c"}, {"ab", "c"}, {"a", "bc"}, {"a/", "b"}, {"a", "/b"}, {uuid7, "b"}, {"b", uuid7}, {ulid, ulid},
	} {
		k, what := stored(f, headers("tenant", pair[0], "invoice", pair[1])), fmt.Sprint(pair)
		if all[k] != "" {
			t.Errorf("%s and %s share a key", what, all[k])
		}
		all[k] = what
	}
	// For ever, and computed elsewhere.
	for id, want := range map[string]string{"acme": "4d6618e3-429c-ba5b-eace-ca598fa9041b", uuid7: "0bf0daf8-c81a-2283-fba3-15a07b09f05d"} {
		if got := stored(f, headers("tenant", id, "invoice", "7")).ID.String(); got != want {
			t.Errorf("%s/7 is stored as %s, want %s", id, got, want)
		}
	}
	one := dedup.Composite(dedup.FromHeader("tenant"))
	nested := dedup.Composite(one, dedup.FromHeader("invoice"))
	if stored(nested, headers("tenant", "a", "invoice", "b")) == stored(f, headers("tenant", "a", "invoice", "b")) {
		t.Error("nesting makes no difference")
	}
}

// A UUID version 7 is stored as it is, so whoever may choose an id may choose sixteen bytes of a
// key: also those of another id's digest, where that looks like a version 7. One in 64 does.
func TestCompositeTellsAChosenUUIDFromADigest(t *testing.T) {
	t.Parallel()
	f := dedup.Composite(dedup.FromHeader("id"), dedup.FromHeader("kind"))
	victim, chosen := collidingIDs(t)
	a, errA := f(headers("id", victim, "kind", "k"))
	b, errB := f(headers("id", chosen, "kind", "k"))
	if errA != nil || errB != nil || a.Stored() == b.Stored() {
		t.Errorf("%s and %s share a key: %v, %v", victim, chosen, errA, errB)
	}
}

// collidingIDs are two ids whose stored keys have the same bytes. One of them is timed.
func collidingIDs(t *testing.T) (victim, chosen string) {
	t.Helper()
	for i := range 10_000 {
		victim = fmt.Sprintf("order-%030d", i) // as long as a UUID
		digest := keyOf(t, victim).Stored()
		if digest.ID[6]>>4 != 7 || digest.ID[8]>>6 != 2 {
			continue
		}
		chosen = digest.ID.String()
		if got := keyOf(t, chosen).Stored(); got.ID != digest.ID || got == digest {
			t.Fatalf("the key of %s is %v", chosen, got)
		}
		return victim, chosen
	}
	t.Fatal("no digest looks like a UUID version 7")
	return
}
