package webhooksub_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/store/memstore"
)

const (
	secret    = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body      = ` {"type":"payment.captured",   "b":1,"a":2}`
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guard is a real one: every message adds one to "effect" and then does what h says.
func guard(t *testing.T, s *memstore.Store, h dedup.TxHandlerFunc[*memstore.Tx]) *dedup.TxGuard[*memstore.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "billing", webhooksub.ID(), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if _, err := tx.Add(ctx, "effect", 1); err != nil {
			return err
		}
		if h == nil {
			return nil
		}
		return h(ctx, tx, m)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newHandler(t *testing.T, source string, p dedup.Processor, opts ...webhooksub.Option) *webhooksub.Handler {
	t.Helper()
	v, err := webhooksub.Standard(oldSecret, secret)
	if err != nil {
		t.Fatal(err)
	}
	h, err := webhooksub.New(source, v, p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve starts a server on loopback and returns its address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// signed makes a request as a sender would.
func signed(t *testing.T, url, id, body string, at time.Time) *http.Request {
	t.Helper()
	key, err := standardwebhooks.ParseSigningKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	s, err := standardwebhooks.Sign(id, at, []byte(body), key)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("webhook-id", s.ID)
	req.Header.Set("webhook-timestamp", s.Timestamp)
	req.Header.Set("webhook-signature", s.Signature)
	return req
}

type response struct {
	status int
	header http.Header
	body   string
}

func do(t *testing.T, req *http.Request) response {
	t.Helper()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(text)}
}

func send(t *testing.T, url, id string) response {
	t.Helper()
	return do(t, signed(t, url, id, body, time.Now()))
}

// processor answers what it is told and keeps what it was given.
type processor struct {
	mu     sync.Mutex
	result dedup.Result
	got    []dedup.Message
}

func (p *processor) Process(_ context.Context, m dedup.Message) dedup.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, m)
	return p.result
}

func applying() *processor { return &processor{result: dedup.Result{Outcome: dedup.Applied}} }
