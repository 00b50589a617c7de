package dedup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/memstore"
)

// payment is a message that every key function finds an identity in.
func payment(id string) dedup.Message {
	return dedup.Message{
		Position: dedup.Position{Broker: "nats", Log: "PAYMENTS", Offset: 42, Time: place.Time},
		Topic:    "payments.captured",
		Key:      []byte("account-7"),
		Headers: []dedup.Header{
			{Key: "ce-id", Value: []byte(id)}, {Key: "ce-source", Value: []byte("/shop")}, {Key: "id", Value: []byte(id)},
		},
		Body:    []byte(`{"payment":"` + id + `"}`),
		Attempt: 1,
	}
}

// byApplication are the key functions that take an identity of the application's.
func byApplication() map[string]dedup.KeyFunc {
	return map[string]dedup.KeyFunc{
		"FromHeader":         dedup.FromHeader("id"),
		"FromJSON":           dedup.FromJSON("/payment"),
		"Composite":          dedup.Composite(dedup.FromHeader("ce-source"), dedup.FromHeader("id")),
		"FirstOf":            dedup.FirstOf(dedup.FromHeader("id"), dedup.FromCoordinates()),
		"FromCloudEvent":     dedup.FromCloudEvent(),
		"FromDebeziumOutbox": dedup.FromDebeziumOutbox(),
		"FromEventID":        dedup.FromEventID(),
	}
}

// A mirror keeps sequence and time and changes the stream's name; a stream that sources another
// one, a cluster that is moved and a producer that tries again give a copy a place of its own.
// Coordinates cannot know it. An id of the application's does not care.
func TestACopyInAnotherPlaceIsKnownByTheApplicationsIDAlone(t *testing.T) {
	t.Parallel()
	original := payment(uuid7)
	copies := map[string]func(m *dedup.Message){
		"a mirror": func(m *dedup.Message) { m.Position.Log = "MIRRORED" },
		"a sourced copy": func(m *dedup.Message) {
			m.Position.Log, m.Position.Offset, m.Position.Time = "ALL", 7, place.Time.Add(time.Second)
		},
		"a producer's copy": func(m *dedup.Message) { m.Position.Offset++; m.Position.Time = place.Time.Add(time.Millisecond) },
		"another partition": func(m *dedup.Message) { m.Position.Partition++ },
		"another broker":    func(m *dedup.Message) { m.Position.Broker, m.Topic = "kafka", "payments" },
	}
	for what, change := range copies {
		m := original
		change(&m)
		for name, f := range byApplication() {
			if storedKeyOf(t, f, m) != storedKeyOf(t, f, original) {
				t.Errorf("%s has another key from %s", what, name)
			}
		}
		if f := dedup.FromCoordinates(); storedKeyOf(t, f, m) == storedKeyOf(t, f, original) {
			t.Errorf("%s has the same coordinates", what)
		}
	}
}

// The broker's key names an entity, and Nats-Msg-Id may be used again on purpose. Equal bodies may
// be two messages, and a count of deliveries begins anew with a new consumer. None of them is an identity.
func TestNothingButTheIdentityIsPartOfAKey(t *testing.T) {
	t.Parallel()
	all := byApplication()
	all["FromCoordinates"] = dedup.FromCoordinates()
	for name, f := range all {
		first := payment(uuid7)
		for what, change := range map[string]func(m *dedup.Message){
			"another key":     func(m *dedup.Message) { m.Key = []byte("account-8") },
			"no key":          func(m *dedup.Message) { m.Key = nil },
			"a later attempt": func(m *dedup.Message) { m.Attempt = 7 },
			"another Nats-Msg-Id": func(m *dedup.Message) {
				m.Headers = append(m.Headers[:3:3], dedup.Header{Key: "Nats-Msg-Id", Value: []byte("x")})
			},
			"another subject": func(m *dedup.Message) { m.Topic = "payments.captured.eu" },
			"another body":    func(m *dedup.Message) { m.Body = []byte(`{"payment":"` + uuid7 + `","note":"tried again"}`) },
		} {
			again := first
			change(&again)
			if storedKeyOf(t, f, again) != storedKeyOf(t, f, first) {
				t.Errorf("%s: %s has another key", name, what)
			}
		}
		// All that is no identity is equal, and the messages are two.
		second := payment("0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8f")
		second.Position.Offset++
		if name != "FromJSON" {
			second.Body = first.Body
		}
		if storedKeyOf(t, f, second) == storedKeyOf(t, f, first) {
			t.Errorf("%s: two messages share a key", name)
		}
	}
}

// There is no position below which everything is done, and no count of deliveries that tells a first
// one: what comes out of order has its effect, and what has had its effect has it once.
func TestOrderAndCountsOfDeliveriesDecideNothing(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]dedup.KeyFunc{"FromHeader": dedup.FromHeader("id"), "FromCoordinates": dedup.FromCoordinates()} {
		s := memstore.New()
		g, err := dedup.NewTx(s, "consumer", key, dedup.Forever, add)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			offset  int64
			attempt int
			want    dedup.Outcome
		}{
			{10, 1, dedup.Applied},
			{3, 1, dedup.Applied}, // below all that was seen
			{12, 7, dedup.Applied},
			{10, 1, dedup.Duplicate}, // delivered "for the first time" again
			{3, 2, dedup.Duplicate},
			{11, 1, dedup.Applied},
			{12, 1, dedup.Duplicate},
		} {
			m := message(fmt.Sprint(c.offset))
			m.Position, m.Attempt = place, c.attempt
			m.Position.Offset, m.Position.Time = c.offset, place.Time.Add(time.Duration(c.offset)*time.Second)
			if r := g.Process(t.Context(), m); r.Outcome != c.want {
				t.Errorf("%s: offset %d, attempt %d: %s, %v, want %s", name, c.offset, c.attempt, r.Outcome, r.Err, c.want)
			}
		}
		wantEffects(t, s, map[string]int64{"3": 1, "10": 1, "11": 1, "12": 1})
	}
}

// One table serves many handlers: a message is each one's own.
func TestOneMessageHasAnEffectPerConsumer(t *testing.T) {
	t.Parallel()
	for name, key := range byApplication() {
		s := memstore.New()
		for range 2 {
			for _, consumer := range []string{"billing", "shipping"} {
				g, err := dedup.NewTx(s, consumer, key, dedup.Forever, add)
				if err != nil {
					t.Fatal(err)
				}
				g.Process(t.Context(), payment(uuid7))
			}
		}
		if n := s.Get(uuid7); n != 2 {
			t.Errorf("%s: %d effects of two consumers", name, n)
		}
	}
}
