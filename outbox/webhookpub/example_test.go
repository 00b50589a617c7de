package webhookpub_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store"
)

// A receiver on this machine is neither https nor a public address nor on port 443: each is
// allowed by an option of its own. In production none of the three is there.
func Example() {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("signed:", r.Header.Get("webhook-signature") != "")
	}))
	defer receiver.Close()
	u, _ := url.Parse(receiver.URL)
	port, _ := strconv.ParseUint(u.Port(), 10, 16)

	key, err := standardwebhooks.ParseSigningKey(standardwebhooks.NewSecret())
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoints := webhookpub.EndpointsFunc(func(_ context.Context, topic string) (webhookpub.Endpoint, error) {
		if topic != "acme" {
			return webhookpub.Endpoint{}, webhookpub.ErrNoEndpoint
		}
		return webhookpub.Endpoint{URL: receiver.URL, Secrets: []webhookpub.Secret{{Key: key}}}, nil
	})
	p, err := webhookpub.New(endpoints,
		webhookpub.WithHTTP(),
		webhookpub.WithPorts(uint16(port)),
		webhookpub.WithAllowPrivate(netip.MustParsePrefix("127.0.0.1/32")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	errs := p.Publish(context.Background(), []store.Event{{ID: store.NewID(), Topic: "acme", Payload: []byte(`{"type":"payment.captured"}`)}})
	fmt.Println("errors:", errs)
	// Output:
	// signed: true
	// errors: []
}
