package webhookpub_test

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store"
)

const (
	secret    = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

var loopback = netip.MustParsePrefix("127.0.0.1/32")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delivery is one request that a receiver got.
type delivery struct {
	header http.Header
	body   []byte
}

// receiver is an endpoint on loopback, with TLS.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []delivery
}

func receive(t *testing.T, h http.HandlerFunc) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		header := req.Header.Clone()
		header.Set("Test-Host", req.Host)
		r.mu.Lock()
		r.got = append(r.got, delivery{header, body})
		r.mu.Unlock()
		if h != nil {
			h(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func (r *receiver) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	return pool
}

func (r *receiver) endpoint(t *testing.T) webhookpub.Endpoint {
	t.Helper()
	return webhookpub.Endpoint{URL: r.URL, Secrets: secrets(t, secret), RootCAs: nil}
}

func port(t *testing.T, rawURL string) uint16 {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

func secrets(t *testing.T, keys ...string) []webhookpub.Secret {
	t.Helper()
	var all []webhookpub.Secret
	for _, s := range keys {
		k, err := standardwebhooks.ParseSigningKey(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, webhookpub.Secret{Key: k})
	}
	return all
}

// publisher sends to these receivers by the topics "a", "b", "c".
func publisher(t *testing.T, receivers []*receiver, opts ...webhookpub.Option) *webhookpub.Publisher {
	t.Helper()
	byTopic := make(map[string]webhookpub.Endpoint)
	roots := x509.NewCertPool()
	var ports []uint16
	for i, r := range receivers {
		byTopic[string(rune('a'+i))] = r.endpoint(t)
		roots.AddCert(r.Certificate())
		ports = append(ports, port(t, r.URL))
	}
	return newPublisher(t, func(_ context.Context, topic string) (webhookpub.Endpoint, error) {
		e, ok := byTopic[topic]
		if !ok {
			return e, webhookpub.ErrNoEndpoint
		}
		return e, nil
	}, append([]webhookpub.Option{
		webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(ports...), webhookpub.WithRootCAs(roots),
	}, opts...)...)
}

// to sends everything to one endpoint, as it stands.
func to(t *testing.T, e webhookpub.Endpoint, opts ...webhookpub.Option) *webhookpub.Publisher {
	t.Helper()
	return newPublisher(t, func(context.Context, string) (webhookpub.Endpoint, error) { return e, nil }, opts...)
}

func newPublisher(t *testing.T, f webhookpub.EndpointsFunc, opts ...webhookpub.Option) *webhookpub.Publisher {
	t.Helper()
	p, err := webhookpub.New(f, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func event(topic, key, payload string) store.Event {
	e := store.Event{ID: store.NewID(), Destination: "webhooks", Topic: topic, Payload: []byte(payload)}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

// one publishes one event and returns its error.
func one(t *testing.T, p *webhookpub.Publisher, e store.Event) error {
	t.Helper()
	errs := p.Publish(t.Context(), []store.Event{e})
	if errs == nil {
		return nil
	}
	return errs[0]
}

func expect(t *testing.T, errs []error, want ...outbox.Verdict) {
	t.Helper()
	if errs == nil {
		errs = make([]error, len(want))
	}
	if len(errs) != len(want) {
		t.Fatalf("%d results for %d events: %v", len(errs), len(want), errs)
	}
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != want[i] {
			t.Errorf("event %d: %s (%v), want %s", i, got, err, want[i])
		}
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// clock is a clock that is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// resolver is a DNS server inside the process. It asks answer for every query of an
// IPv4 address.
func resolver(answer func(name string) []netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serveDNS(server, answer)
		return client, nil
	}}
}
