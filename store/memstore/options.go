package memstore

import (
	"fmt"
	"time"
)

// Option changes what [New] makes.
type Option interface{ apply(*config) }

type config struct {
	lockWait  time.Duration
	maxLeases int
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

// WithLockWait bounds how long one call waits for a rival's transaction; past it the
// error has FaultBusy. The default is 5 s. A longer wait holds up the messages behind it; a shorter one
// gives up on rivals that would have ended.
func WithLockWait(d time.Duration) Option {
	return option(func(c *config) { c.lockWait = d })
}

// WithMaxLeases bounds the number of leases and results kept at once. The default is one
// million. They are spread over 64 shards and each takes its share of the bound, so a
// small bound may be reached a little early in one of them.
func WithMaxLeases(n int) Option {
	return option(func(c *config) { c.maxLeases = n })
}

func (c config) validate() error {
	switch {
	case c.lockWait <= 0:
		return fmt.Errorf("memstore: WithLockWait(%s): the wait must be above zero", c.lockWait)
	case c.maxLeases < shardCount:
		return fmt.Errorf("memstore: WithMaxLeases(%d): the bound must be at least %d, one for each shard", c.maxLeases, shardCount)
	}
	return nil
}
