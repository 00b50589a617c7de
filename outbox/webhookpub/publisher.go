package webhookpub

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

var (
	_ outbox.Publisher = (*Publisher)(nil)
	_ outbox.Validator = (*Publisher)(nil)
	_ outbox.Splitter  = (*Publisher)(nil)
)

// Publisher sends events as webhooks. It is safe for concurrent use.
type Publisher struct {
	config
	endpoints Endpoints
	guard     *guard
	limiter   *limiter
	shared    *http.Transport
}

// New returns a publisher that asks endpoints where events go. Nothing is sent here.
func New(endpoints Endpoints, opts ...Option) (*Publisher, error) {
	c := defaults()
	for _, o := range opts {
		o.apply(&c)
	}
	if endpoints == nil {
		return nil, errors.New("webhookpub: new: endpoints is nil: it says where events go")
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("webhookpub: new: %w", err)
	}
	g := newGuard(c)
	return &Publisher{
		config:    c,
		endpoints: endpoints,
		guard:     g,
		limiter:   newLimiter(c.inFlight, c.perEndpoint),
		shared:    newTransport(c, g),
	}, nil
}

// SplitByTopic says that every topic is a server of its own, see [outbox.Splitter].
func (p *Publisher) SplitByTopic() {}

// Check says whether the endpoint could be called now: the URL is of the allowed form, its
// name resolves, every address that it resolves to is allowed, and there is a key that
// signs. It connects to nothing. Call it when an endpoint is registered, for an early error: each
// attempt is checked again by itself, since names change what they resolve to.
func (p *Publisher) Check(ctx context.Context, e Endpoint) error {
	if err := p.check(ctx, e); err != nil {
		return fmt.Errorf("webhookpub: check endpoint: %w", err)
	}
	return nil
}

func (p *Publisher) check(ctx context.Context, e Endpoint) error {
	u, err := p.guard.parse(e.URL)
	if err != nil {
		return err
	}
	if _, err := e.keys(p.now()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.connect)
	defer cancel()
	addresses, err := p.resolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if err := p.guard.address(a.Unmap()); err != nil {
			return err
		}
	}
	return nil
}

// Close gives up the connections that are kept for the next attempts. It does not wait for
// attempts that are under way; they end by themselves within the timeout.
func (p *Publisher) Close() { p.shared.CloseIdleConnections() }

// Publish implements [outbox.Publisher]. An attempt that is under way when ctx ends is
// broken off, and whether it arrived is not known.
func (p *Publisher) Publish(ctx context.Context, events []store.Event) []error {
	errs := make([]error, len(events))
	(&fan{p: p, ctx: ctx, events: events, errs: errs}).run()
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}
