package webhookpub

import "time"

// WithClock replaces the clock that timestamps, ends of secrets and dates in Retry-After
// are read from.
func WithClock(now func() time.Time) Option { return optionFunc(func(c *config) { c.now = now }) }

// WithDialled calls f with every address that the guard has let through, before it is
// connected to. An error keeps it from being connected to.
func WithDialled(f func(network, address string) error) Option {
	return optionFunc(func(c *config) { c.dialled = f })
}

var RetryAfter = retryAfter
