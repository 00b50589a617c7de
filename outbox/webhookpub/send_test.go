package webhookpub_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	oracle "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store"
)

func TestThreeAttemptsHaveOneIDThreeTimestampsAndTheSameBytes(t *testing.T) {
	t.Parallel()
	r := receive(t, status(http.StatusInternalServerError))
	c := &clock{now: time.Now().Add(-2 * time.Minute)}
	p := publisher(t, []*receiver{r}, webhookpub.WithClock(c.Now))
	e := event("a", "k", " {\"b\" : 1,\r\n\t\"a\":2}\x00\xff ")
	for range 3 {
		if got := outbox.VerdictOf(one(t, p, e)); got != outbox.RefusedOnce {
			t.Fatalf("the verdict of 500 is %s", got)
		}
		c.Advance(time.Minute)
	}
	ref, err := oracle.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, d := range r.deliveries() {
		if id := d.header.Get("webhook-id"); id != e.ID.String() {
			t.Errorf("webhook-id is %q, want %s", id, e.ID)
		}
		seen[d.header.Get("webhook-timestamp")+d.header.Get("webhook-signature")] = true
		if !bytes.Equal(d.body, e.Payload) {
			t.Errorf("the body is %q", d.body)
		}
		if err := ref.Verify(d.body, d.header); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d different timestamps and signatures, want 3", len(seen))
	}
}

func TestDuringARotationBothSecretsSignAndThenOnlyTheNewOne(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	e := r.endpoint(t)
	e.RootCAs = r.roots()
	e.Secrets = secrets(t, secret, oldSecret)
	e.Secrets[1].Until = c.now.Add(24 * time.Hour)
	p := to(t, e, webhookpub.WithClock(c.Now), webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, r.URL)))
	if err := one(t, p, event("a", "", "{}")); err != nil {
		t.Fatal(err)
	}
	during := c.Now()
	c.Advance(24 * time.Hour)
	if err := one(t, p, event("a", "", "{}")); err != nil {
		t.Fatal(err)
	}
	got := r.deliveries()
	for _, check := range []struct {
		name, key string
		d         delivery
		at        time.Time
		verifies  bool
	}{
		{"new secret during", secret, got[0], during, true},
		{"old secret during", oldSecret, got[0], during, true},
		{"new secret after", secret, got[1], c.Now(), true},
		{"old secret after", oldSecret, got[1], c.Now(), false},
	} {
		key, err := standardwebhooks.ParseVerifyingKey(check.key)
		if err != nil {
			t.Fatal(err)
		}
		v, err := standardwebhooks.NewVerifier([]standardwebhooks.VerifyingKey{key}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(check.d.header, check.d.body, check.at); (err == nil) != check.verifies {
			t.Errorf("%s: %v", check.name, err)
		}
	}
	if n := strings.Count(got[0].header.Get("webhook-signature"), "v1,"); n != 2 {
		t.Errorf("%d signatures during the rotation", n)
	}
}

func TestWithoutASecretThatSignsNothingIsSent(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	e := r.endpoint(t)
	e.Secrets[0].Until = time.Now().Add(-time.Second)
	p := to(t, e, webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, r.URL)), webhookpub.WithRootCAs(r.roots()))
	if got := outbox.VerdictOf(one(t, p, event("a", "", "{}"))); got != outbox.Unreached {
		t.Errorf("the verdict is %s", got)
	}
	if n := len(r.deliveries()); n != 0 {
		t.Errorf("%d unsigned deliveries", n)
	}
}

func TestHeadersOfTheEventTravelAndNamesCanBeSentInTwoSets(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	p := publisher(t, []*receiver{r}, webhookpub.WithHeaderNames(standardwebhooks.Standard, standardwebhooks.Svix))
	e := event("a", "", "<x/>")
	e.Headers = []store.Header{{Key: "content-type", Value: []byte("text/xml")}, {Key: "X-Tag", Value: []byte("1")}, {Key: "X-Tag", Value: []byte("2")}}
	plain := event("a", "", "{}")
	if errs := p.Publish(t.Context(), []store.Event{e}); errs != nil {
		t.Fatal(errs)
	}
	if errs := p.Publish(t.Context(), []store.Event{plain}); errs != nil {
		t.Fatal(errs)
	}
	got := r.deliveries()
	h := got[0].header
	if !slices.Equal(h.Values("Content-Type"), []string{"text/xml"}) || !slices.Equal(h.Values("X-Tag"), []string{"1", "2"}) {
		t.Errorf("headers %v", h)
	}
	for _, name := range []string{"id", "timestamp", "signature"} {
		if v := h.Get("webhook-" + name); v == "" || v != h.Get("svix-"+name) {
			t.Errorf("webhook-%s is %q, svix-%s is %q", name, v, name, h.Get("svix-"+name))
		}
	}
	if ct := got[1].header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type is %q", ct)
	}
}

func TestWhatCannotBeSentIsRefusedForGoodBeforeItIsSent(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	p := publisher(t, []*receiver{r}, webhookpub.WithMaxPayload(100))
	good := event("a", "k", "{}")
	header := func(key, value string) func(*store.Event) {
		return func(e *store.Event) { e.Headers = []store.Header{{Key: key, Value: []byte(value)}} }
	}
	for name, change := range map[string]func(*store.Event){
		"no id":                func(e *store.Event) { e.ID = store.ID{} },
		"no topic":             func(e *store.Event) { e.Topic = "" },
		"too large":            func(e *store.Event) { e.Payload = make([]byte, 101) },
		"its own id":           header("Webhook-Id", "1"),
		"its own signature":    header("webhook-signature", "1"),
		"the host":             header("host", "internal"),
		"the length":           header("Content-Length", "0"),
		"the coding":           header("transfer-encoding", "chunked"),
		"a forwarded address":  header("X-Forwarded-For", "10.0.0.1"),
		"a line break":         header("X-A", "b\r\nHost: internal"),
		"NUL":                  header("X-A", "\x00"),
		"a name with a space":  header("X A", "b"),
		"a name with a colon":  header("X:A", "b"),
		"an empty name":        header("", "b"),
		"a name outside ASCII": header("X-Ä", "b"),
	} {
		bad := good
		change(&bad)
		if got := outbox.VerdictOf(p.Validate(bad)); got != outbox.RefusedForGood {
			t.Errorf("%s: Validate says %s", name, got)
		}
		if bad.Topic == "" {
			continue // The publisher knows no such endpoint either.
		}
		errs := p.Publish(t.Context(), []store.Event{bad, good})
		if len(errs) != 2 || outbox.VerdictOf(errs[0]) != outbox.RefusedForGood || outbox.VerdictOf(errs[1]) != outbox.NotSent {
			t.Errorf("%s: Publish says %v", name, errs)
		}
	}
	if n := len(r.deliveries()); n != 0 {
		t.Errorf("%d were sent", n)
	}
	if errs := p.Publish(t.Context(), []store.Event{good}); errs != nil {
		t.Error(errs)
	}
	if errs := p.Publish(t.Context(), nil); errs != nil {
		t.Errorf("no events: %v", errs)
	}
}
