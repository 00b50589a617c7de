package webhooksub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/semel-dev/semel/dedup"
)

type config struct {
	maxBody      int64
	readLimit    time.Duration
	processLimit time.Duration
	retryAfter   time.Duration
	typeOf       func(http.Header, []byte) string
	log          *slog.Logger
	observe      func(context.Context, Delivery)
	now          func() time.Time
}

func defaults() config {
	return config{
		maxBody:      1 << 20,
		readLimit:    10 * time.Second,
		processLimit: 30 * time.Second,
		retryAfter:   5 * time.Second,
		typeOf:       typeOfJSON,
		log:          slog.New(slog.DiscardHandler),
		observe:      func(context.Context, Delivery) {},
		now:          time.Now,
	}
}

// Option is an option of [New].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithMaxBody is the size of a body above which a request is answered 413, unread. The
// default is 1 MiB.
func WithMaxBody(bytes int64) Option { return optionFunc(func(c *config) { c.maxBody = bytes }) }

// WithReadLimit bounds how long the body may take to arrive. The default is 10 seconds. It
// needs a server that can set deadlines, as net/http's can.
func WithReadLimit(d time.Duration) Option { return optionFunc(func(c *config) { c.readLimit = d }) }

// WithProcessLimit bounds how long a message is processed. The default is 30 seconds. What
// is not committed by then is rolled back, and the sender is asked to come again.
// An http.Server whose Shutdown is to wait for running handlers needs as long.
func WithProcessLimit(d time.Duration) Option {
	return optionFunc(func(c *config) { c.processLimit = d })
}

// WithRetryAfter is what a sender is asked to wait after a 503. The default is 5 seconds.
func WithRetryAfter(d time.Duration) Option { return optionFunc(func(c *config) { c.retryAfter = d }) }

// WithType finds the event's type, which becomes the message's Topic. It is asked after
// the request was verified. The default is the member "type" of a JSON object.
func WithType(f func(h http.Header, body []byte) string) Option {
	return optionFunc(func(c *config) { c.typeOf = f })
}

// WithLogger sets the logger; the default discards. Requests that are not believed are logged at the
// level of information, since anybody can send them; failures are warnings, messages that
// nobody will try again are errors.
func WithLogger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.log = l }) }

// WithObserver calls f after each request has been answered, to count them. It must be
// quick and safe for concurrent use.
func WithObserver(f func(context.Context, Delivery)) Option {
	return optionFunc(func(c *config) { c.observe = f })
}

// Delivery is what became of one request.
type Delivery struct {
	Source string
	// ID and Type are empty where the request was not believed.
	ID, Type string
	// Outcome is zero where the request did not reach the processor.
	Outcome dedup.Outcome
	// Status is that of the answer.
	Status int
	Took   time.Duration
	// Err says why the status is not 200, or why a message was buried.
	Err error
}

func (c config) validate() error {
	switch {
	case c.maxBody < 1:
		return fmt.Errorf("WithMaxBody(%d): at least one byte must be allowed", c.maxBody)
	case c.readLimit <= 0:
		return fmt.Errorf("WithReadLimit(%s): it must be above zero", c.readLimit)
	case c.processLimit <= 0:
		return fmt.Errorf("WithProcessLimit(%s): it must be above zero", c.processLimit)
	case c.retryAfter <= 0:
		return fmt.Errorf("WithRetryAfter(%s): it must be above zero", c.retryAfter)
	case c.typeOf == nil, c.log == nil, c.observe == nil:
		return errors.New("WithType, WithLogger or WithObserver was given nil: leave the option out")
	}
	return nil
}
