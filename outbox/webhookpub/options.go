package webhookpub

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

type config struct {
	timeout       time.Duration
	connect       time.Duration
	inFlight      int
	perEndpoint   int
	maxPayload    int
	maxRetryAfter time.Duration
	anyRetryAfter bool
	names         []standardwebhooks.HeaderNames
	ports         []uint16
	http          bool
	allowed       []netip.Prefix
	roots         *x509.CertPool
	resolver      *net.Resolver
	observe       func(context.Context, Attempt)
	now           func() time.Time
	// dialled is asked after the guard, for tests that must not connect.
	dialled func(network, address string) error
}

func defaults() config {
	return config{
		timeout:       15 * time.Second,
		connect:       5 * time.Second,
		inFlight:      256,
		perEndpoint:   8,
		maxPayload:    256 << 10,
		maxRetryAfter: 24 * time.Hour,
		names:         []standardwebhooks.HeaderNames{standardwebhooks.Standard},
		ports:         []uint16{443},
		resolver:      net.DefaultResolver,
		observe:       func(context.Context, Attempt) {},
		now:           time.Now,
	}
}

// Option is an option of [New].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithTimeout bounds one attempt: looking up the name, connecting, TLS, sending, and
// reading the answer. The default is 15 seconds; the standard asks for 15 to 30.
func WithTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.timeout = d }) }

// WithConnectTimeout bounds the lookup of the name and the connection within an attempt. The
// default is 5 seconds.
func WithConnectTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.connect = d })
}

// WithConcurrency bounds how many attempts are under way at one time, over all calls: in
// all (default 256) and to one endpoint (default 8). Endpoints that hang can hold up others
// only when so many of them hang that they use up all there is.
func WithConcurrency(all, perEndpoint int) Option {
	return optionFunc(func(c *config) { c.inFlight, c.perEndpoint = all, perEndpoint })
}

// WithMaxPayload is the size above which an event is refused for good. The default is 256
// KiB; the standard advises to stay below 20 kB and to send ids instead of what they
// stand for.
func WithMaxPayload(bytes int) Option { return optionFunc(func(c *config) { c.maxPayload = bytes }) }

// WithMaxRetryAfter cuts what an endpoint may ask for in Retry-After. The default is 24 hours.
func WithMaxRetryAfter(d time.Duration) Option {
	return optionFunc(func(c *config) { c.maxRetryAfter = d })
}

// WithRetryAfterOnAnyFailure passes on the Retry-After of every answer that is not 200 to
// 299. The default is 429 and 503, for which it is defined.
func WithRetryAfterOnAnyFailure() Option {
	return optionFunc(func(c *config) { c.anyRetryAfter = true })
}

// WithHeaderNames sends the three values under these names instead of the standard's.
// With several sets each is sent, which lets receivers move from one to the other.
func WithHeaderNames(names ...standardwebhooks.HeaderNames) Option {
	return optionFunc(func(c *config) { c.names = names })
}

// WithPorts replaces the list of ports that may be called, which is 443 alone.
func WithPorts(ports ...uint16) Option { return optionFunc(func(c *config) { c.ports = ports }) }

// WithHTTP allows URLs that begin with http://. Bodies then travel in the clear; the
// signature still keeps them from being changed. Port 80 has to be allowed as well.
func WithHTTP() Option { return optionFunc(func(c *config) { c.http = true }) }

// WithAllowPrivate allows addresses in these ranges, whatever else is refused: a receiver
// in your own network, or 127.0.0.1/32 for a test. Whoever can register a URL can then
// send requests to all that listens there.
func WithAllowPrivate(prefixes ...netip.Prefix) Option {
	return optionFunc(func(c *config) { c.allowed = append(c.allowed, prefixes...) })
}

// WithRootCAs replaces the system's certificate authorities.
func WithRootCAs(pool *x509.CertPool) Option { return optionFunc(func(c *config) { c.roots = pool }) }

// WithResolver looks up names with r instead of the system's resolver. What it answers is
// judged all the same.
func WithResolver(r *net.Resolver) Option { return optionFunc(func(c *config) { c.resolver = r }) }

// WithObserver calls f after each attempt, from the goroutine that made it, before its
// event is reported to the relay. It is the place to write a log of attempts, to count,
// and to switch off an endpoint that says it is gone. f must be quick and safe for
// concurrent use.
func WithObserver(f func(context.Context, Attempt)) Option {
	return optionFunc(func(c *config) { c.observe = f })
}

func (c config) validate() error {
	switch {
	case c.timeout <= 0:
		return fmt.Errorf("the timeout is %s: it must be above zero; 15 seconds are usual", c.timeout)
	case c.connect <= 0:
		return fmt.Errorf("the timeout for connecting is %s: it must be above zero", c.connect)
	case c.inFlight < 1 || c.perEndpoint < 1:
		return fmt.Errorf("%d attempts in all and %d to one endpoint are allowed: 1 is the least", c.inFlight, c.perEndpoint)
	case c.maxPayload < 1:
		return fmt.Errorf("the largest payload is %d bytes: it must be above zero", c.maxPayload)
	case c.maxRetryAfter < 0:
		return fmt.Errorf("the longest Retry-After is %s: it must not be below zero", c.maxRetryAfter)
	case len(c.names) == 0:
		return errors.New("there are no header names: leave the option out for the standard's")
	case len(c.ports) == 0:
		return errors.New("no port is allowed: name at least one, as 443")
	case c.observe == nil || c.resolver == nil:
		return errors.New("the observer or the resolver is nil: leave the option out")
	}
	for _, n := range c.names {
		if !isToken(n.ID) || !isToken(n.Timestamp) || !isToken(n.Signature) {
			return errors.New("a header name is empty or not valid: a set has three, such as webhook-id")
		}
	}
	for _, p := range c.allowed {
		if !p.IsValid() {
			return errors.New("an allowed range is not valid: make it with netip.ParsePrefix")
		}
	}
	return nil
}
