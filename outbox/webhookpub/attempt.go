package webhookpub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/store"
)

const (
	// maxRead is how much of an answer is read, maxReading for how long, and maxKept how
	// much of it is kept.
	maxRead    = 16 << 10
	maxReading = 2 * time.Second
	maxKept    = 1 << 10
)

// Attempt is what is known of one attempt. Nothing in it holds a secret or the URL.
type Attempt struct {
	EventID store.ID
	Topic   string
	Began   time.Time
	Took    time.Duration
	// Address is what was connected to, where it came to that.
	Address string
	// Status is that of the answer, zero where there was none.
	Status int
	// Body is the beginning of the answer, at most 1024 bytes of valid UTF-8 without
	// control characters. It is the endpoint's text: show it, do not trust it.
	Body string
	// Disable says that the endpoint wants no more webhooks, even if it took this one.
	Disable bool
	// Err is what the relay is told; nil when the event is confirmed.
	Err error
}

// attempt sends the event once.
func (p *Publisher) attempt(ctx context.Context, target Endpoint, e store.Event) error {
	a := Attempt{EventID: e.ID, Topic: e.Topic, Began: p.now()}
	began := time.Now()
	err := p.send(ctx, target, e, &a)
	a.Took = time.Since(began)
	if err != nil {
		a.Err = fmt.Errorf("webhookpub: send event %s to %q: %w", e.ID, e.Topic, err)
	}
	p.observe(context.WithoutCancel(ctx), a)
	return a.Err
}

func (p *Publisher) send(ctx context.Context, target Endpoint, e store.Event, a *Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	u, err := p.guard.parse(target.URL)
	if err != nil {
		return outbox.Permanent(err)
	}
	keys, err := target.keys(a.Began)
	if err != nil {
		return err
	}
	signed, err := standardwebhooks.Sign(e.ID.String(), a.Began, e.Payload, keys...)
	if err != nil {
		return err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { a.Address = i.Conn.RemoteAddr().String() },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(e.Payload))
	if err != nil {
		return outbox.Permanent(&ForbiddenError{"the URL cannot be called"})
	}
	req.Header = p.header(e, signed)
	transport, done := p.transport(target)
	defer done()
	client := http.Client{Transport: transport, CheckRedirect: noRedirects}
	res, err := client.Do(req)
	if err != nil {
		return p.failure(err)
	}
	defer res.Body.Close()
	a.Status, a.Disable = res.StatusCode, wantsDisable(res)
	// The status has decided. An answer that drips in must not hold the place any longer.
	defer time.AfterFunc(maxReading, cancel).Stop()
	a.Body = excerpt(res.Body)
	return p.verdict(res, a)
}

// failure judges an attempt without an answer. The URL, with whatever its query may hold,
// is left out.
func (p *Publisher) failure(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	switch {
	case isForbidden(err):
		return outbox.Permanent(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s, it may have arrived: %w", p.timeout, err)
	default:
		return err
	}
}

// excerpt reads the answer as far as it is read at all, and keeps the beginning. What goes
// wrong here does not matter any more.
func excerpt(body io.Reader) string {
	raw, _ := io.ReadAll(io.LimitReader(body, maxRead))
	raw = raw[:min(len(raw), maxKept)]
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, string(raw)))
}
