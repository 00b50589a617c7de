package webhooksub

import "time"

// WithClock replaces the clock against which timestamps are held.
func WithClock(now func() time.Time) Option { return optionFunc(func(c *config) { c.now = now }) }
