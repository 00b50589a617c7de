package webhookpub_test

import (
	"context"
	"io"
	"log"
	"net/netip"
	"testing"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/outbox/webhookpub"
)

var nolog = log.New(io.Discard, "", 0)

func TestNewRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	nowhere := webhookpub.EndpointsFunc(func(context.Context, string) (webhookpub.Endpoint, error) {
		return webhookpub.Endpoint{}, webhookpub.ErrNoEndpoint
	})
	if _, err := webhookpub.New(nowhere); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if _, err := webhookpub.New(nil); err == nil {
		t.Error("no endpoints: taken")
	}
	for name, o := range map[string]webhookpub.Option{
		"no timeout":           webhookpub.WithTimeout(0),
		"no connect timeout":   webhookpub.WithConnectTimeout(-1),
		"nothing in all":       webhookpub.WithConcurrency(0, 1),
		"nothing to one":       webhookpub.WithConcurrency(1, 0),
		"no payload":           webhookpub.WithMaxPayload(0),
		"negative retry after": webhookpub.WithMaxRetryAfter(-1),
		"no header names":      webhookpub.WithHeaderNames(),
		"an empty header name": webhookpub.WithHeaderNames(standardwebhooks.HeaderNames{ID: "a", Timestamp: "b"}),
		"a bad header name":    webhookpub.WithHeaderNames(standardwebhooks.HeaderNames{ID: "a b", Timestamp: "b", Signature: "c"}),
		"no ports":             webhookpub.WithPorts(),
		"a range that is none": webhookpub.WithAllowPrivate(netip.Prefix{}),
		"no observer":          webhookpub.WithObserver(nil),
		"no resolver":          webhookpub.WithResolver(nil),
	} {
		if _, err := webhookpub.New(nowhere, o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
