package natspub_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/store"
)

func TestAnEventArrivesWithItsIDAndType(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	e := event("orders.paid", "k", "\x00 body \xff")
	e.Type = "order.paid"
	e.Headers = []store.Header{{Key: "trace", Value: []byte("1")}, {Key: "trace", Value: []byte("2")}, {Key: "Trace", Value: []byte("ä")}}
	expect(t, publisher(t, js).Publish(t.Context(), []store.Event{e}), outbox.Confirmed)
	got := stored(t, js)
	if len(got) != 1 || got[0].Subject != e.Topic || string(got[0].Data) != string(e.Payload) {
		t.Fatalf("stored %+v", got)
	}
	h := got[0].Header
	for name, want := range map[string][]string{
		"id": {e.ID.String()}, "type": {"order.paid"}, "Nats-Msg-Id": {e.ID.String() + "/nats"},
		"trace": {"1", "2"}, "Trace": {"ä"},
	} {
		if !slices.Equal(h[name], want) {
			t.Errorf("header %s is %q, want %q", name, h[name], want)
		}
	}
}

func TestACopyWithinTheWindowIsConfirmedAndNotStoredAgain(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	p := publisher(t, js)
	e := event("orders.paid", "k", "once")
	for range 3 {
		expect(t, p.Publish(t.Context(), []store.Event{e}), outbox.Confirmed)
	}
	if got := stored(t, js); len(got) != 1 {
		t.Errorf("stored %q", bodies(got))
	}
	other := e
	other.Destination = "another"
	expect(t, p.Publish(t.Context(), []store.Event{other}), outbox.Confirmed)
	if got := stored(t, js); len(got) != 2 {
		t.Error("an event for another destination was taken for a copy")
	}
}

// The server stores what it gets and its answers do not arrive.
func TestALostAcknowledgementIsNotAConfirmationAndTheCopyHasTheSameID(t *testing.T) {
	t.Parallel()
	const window = 100 * time.Millisecond // The shortest a server allows.
	deaf := &natsserver.User{Username: "deaf", Password: "x", Permissions: &natsserver.Permissions{
		Subscribe: &natsserver.SubjectPermission{Deny: []string{"_DEAF.>"}},
	}}
	s, js := server(t, func(c *jetstream.StreamConfig) { c.Duplicates = window },
		servers.WithNATSOptions(func(o *natsserver.Options) {
			o.Users = []*natsserver.User{deaf, {Username: "good", Password: "x"}}
			o.NoAuthUser = "good"
		}))
	lost := publisher(t, connect(t, s.URL(), nats.UserInfo("deaf", "x"), nats.CustomInboxPrefix("_DEAF"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), natspub.WithAckWait(300*time.Millisecond))
	e := event("orders.paid", "k", "once")
	began := time.Now()
	expect(t, lost.Publish(t.Context(), []store.Event{e}), outbox.Unreached)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("gave up after %s", took)
	}
	if got := stored(t, js); len(got) != 1 {
		t.Fatalf("stored %q, want the event whose acknowledgement was lost", bodies(got))
	}
	// The wait was longer than the duplicate window, so this is a copy.
	expect(t, publisher(t, js).Publish(t.Context(), []store.Event{e}), outbox.Confirmed)
	got := stored(t, js)
	if len(got) != 2 || got[0].Header.Get("id") != got[1].Header.Get("id") {
		t.Errorf("stored %+v", got)
	}
}

func TestNothingOfAKeyOvertakesAnEventThatFailed(t *testing.T) {
	t.Parallel()
	_, js := server(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 400 })
	p := publisher(t, js)
	events := numbered("orders.paid", "a", 5)
	events[2].Payload = make([]byte, 500)
	events = append(events, numbered("orders.paid", "b", 2)...)
	events = append(events, event("orders.paid", "", "free"))
	expect(t, p.Publish(t.Context(), events),
		outbox.Confirmed, outbox.Confirmed, outbox.RefusedForGood, outbox.NotSent, outbox.NotSent,
		outbox.Confirmed, outbox.Confirmed, outbox.Confirmed)
	if got := bodies(stored(t, js)); slices.Contains(got, "a03") || len(got) != 5 {
		t.Errorf("stored %q", got)
	}
}

func TestManyKeysAreEachInOrder(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	p := publisher(t, js, natspub.WithWindow(7))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var events []store.Event
			for i := range 100 {
				key := fmt.Sprintf("%c%d", 'A'+g, i%5)
				if i%5 == 4 {
					key = ""
				}
				events = append(events, event("orders.paid", key, fmt.Sprintf("%s/%03d", key, i)))
			}
			if errs := p.Publish(t.Context(), events); errs != nil {
				t.Error(errs)
			}
		})
	}
	wg.Wait()
	last := make(map[string]string)
	got := bodies(stored(t, js))
	for _, s := range got {
		key, _, _ := strings.Cut(s, "/")
		if key != "" && s <= last[key] {
			t.Errorf("%s after %s", s, last[key])
		}
		last[key] = s
	}
	if len(got) != 400 {
		t.Errorf("%d stored, want 400", len(got))
	}
}

func TestASubjectWithoutAStreamHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	began := time.Now()
	defer func() {
		// The time that nats.go would spend on trying again.
		if took := time.Since(began); took >= jetstream.DefaultPubRetryAttempts*jetstream.DefaultPubRetryWait {
			t.Errorf("it took %s", took)
		}
	}()
	expect(t, publisher(t, js).Publish(t.Context(), []store.Event{
		event("nobody.listens", "a", "1"), event("orders.paid", "b", "2"), event("orders.paid", "a", "3"), event("orders.paid", "b", "4"),
	}), outbox.Unreached, outbox.Confirmed, outbox.NotSent, outbox.Confirmed)
	if got := bodies(stored(t, js)); !slices.Equal(got, []string{"2", "4"}) {
		t.Errorf("stored %q", got)
	}
}

func TestOnlyTheExpectedStreamIsAConfirmation(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	e := event("orders.paid", "a", "1")
	expect(t, publisher(t, js, natspub.WithStream("INVOICES")).Publish(t.Context(), []store.Event{e}), outbox.Unreached)
	if got := stored(t, js); len(got) != 0 {
		t.Errorf("stored %q", bodies(got))
	}
	expect(t, publisher(t, js, natspub.WithStream("ORDERS")).Publish(t.Context(), []store.Event{e}), outbox.Confirmed)
}

func TestASubscriberIsNotAConfirmation(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	sub, err := js.Conn().SubscribeSync("plain.subject")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, publisher(t, js, natspub.WithAckWait(200*time.Millisecond)).Publish(t.Context(),
		[]store.Event{event("plain.subject", "", "1")}), outbox.Unreached)
	if _, err := sub.NextMsg(5 * time.Second); err != nil {
		t.Errorf("the subscriber that must not count did not even get it: %v", err)
	}
}

func TestAFullStreamUsesNoAttempt(t *testing.T) {
	t.Parallel()
	_, js := server(t, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew })
	expect(t, publisher(t, js).Publish(t.Context(), numbered("orders.paid", "a", 3)),
		outbox.Confirmed, outbox.Unreached, outbox.NotSent)
}

func TestWhatExceedsTheServersLimitIsRefusedForGood(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil, servers.WithNATSOptions(func(o *natsserver.Options) { o.MaxPayload = 1000 }))
	p := publisher(t, js)
	big := event("orders.paid", "a", strings.Repeat("x", 1001))
	if got := outbox.VerdictOf(p.Validate(big)); got != outbox.RefusedForGood {
		t.Errorf("Validate says %s", got)
	}
	// The payload alone would fit.
	headers := event("orders.paid", "b", strings.Repeat("x", 990))
	expect(t, p.Publish(t.Context(), []store.Event{big, headers, event("orders.paid", "", "ok")}),
		outbox.RefusedForGood, outbox.RefusedForGood, outbox.Confirmed)
}

func TestWithoutAConnectionNothingIsSentNotEvenLater(t *testing.T) {
	t.Parallel()
	s, js := server(t, nil)
	p := publisher(t, js)
	expect(t, p.Publish(t.Context(), numbered("orders.paid", "a", 1)), outbox.Confirmed)
	lost := js.Conn().StatusChanged(nats.RECONNECTING)
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	<-lost
	began := time.Now()
	events := []store.Event{event("orders.paid", "a", "late1"), event("orders.paid", "a", "late2"), event("orders.paid", "", "late3")}
	expect(t, p.Publish(t.Context(), events), outbox.Unreached, outbox.NotSent, outbox.NotSent)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s to say that there is no connection", took)
	}
	back := js.Conn().StatusChanged(nats.CONNECTED)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-back
	expect(t, p.Publish(t.Context(), []store.Event{event("orders.paid", "a", "now")}), outbox.Confirmed)
	if got := bodies(stored(t, js)); !slices.Equal(got, []string{"a00", "now"}) {
		t.Errorf("stored %q", got)
	}
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	expect(t, publisher(t, js).Publish(ended(t), []store.Event{event("orders.paid", "a", "1"), event("orders.paid", "", "2")}),
		outbox.NotSent, outbox.NotSent)
	if got := stored(t, js); len(got) != 0 {
		t.Errorf("stored %q", bodies(got))
	}
}
