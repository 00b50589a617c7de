package webhooksub_test

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// The two halves of this library: copies that the sender makes are collapsed by the receiver.
func TestWhatWebhookpubSendsTakesEffectOnce(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var runs atomic.Int64
	address := serve(t, newHandler(t, "payments", guard(t, s, func(_ context.Context, _ *memstore.Tx, m dedup.Message) error {
		switch {
		case runs.Add(1) == 1:
			return errors.New("not today")
		case m.Topic == "payment.impossible":
			return dedup.Permanent(errors.New("no"))
		}
		return nil
	})))
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	key, err := standardwebhooks.ParseSigningKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	p, err := webhookpub.New(webhookpub.EndpointsFunc(func(context.Context, string) (webhookpub.Endpoint, error) {
		return webhookpub.Endpoint{URL: address, Secrets: []webhookpub.Secret{{Key: key}}}, nil
	}), webhookpub.WithHTTP(), webhookpub.WithPorts(uint16(port)), webhookpub.WithAllowPrivate(netip.MustParsePrefix("127.0.0.1/32")))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	events := []store.Event{
		{ID: store.NewID(), Topic: "partner", Key: []byte("k"), Payload: []byte(body)},
		{ID: store.NewID(), Topic: "partner", Key: []byte("k"), Payload: []byte(`{"type":"payment.impossible"}`)},
		{ID: store.NewID(), Topic: "partner", Key: []byte("k"), Payload: []byte(`{"type":"payment.voided"}`)},
	}
	errs := p.Publish(t.Context(), events)
	if len(errs) != 3 || outbox.VerdictOf(errs[0]) != outbox.RefusedOnce || outbox.VerdictOf(errs[1]) != outbox.NotSent {
		t.Fatalf("while the handler fails: %v", errs)
	}
	for range 3 {
		if errs := p.Publish(t.Context(), events); errs != nil {
			t.Errorf("errors: %v", errs)
		}
	}
	if n := s.Get("effect"); n != 2 || runs.Load() != 4 {
		t.Errorf("%d effects in %d runs, want 2 in 4", n, runs.Load())
	}
	if dead, err := s.ListDead(t.Context(), store.LetterFilter{Consumer: "billing"}, 0, 10); err != nil || len(dead) != 1 {
		t.Errorf("dead letters: %+v, %v", dead, err)
	}
}
