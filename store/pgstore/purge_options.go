package pgstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// PurgeOption configures [NewPurger].
type PurgeOption interface{ applyPurge(*purgeConfig) }

type purgeConfig struct {
	interval      time.Duration
	rowsPerSecond int
	batch         int
	lockWait      time.Duration
	snapshotWait  time.Duration
	logger        *slog.Logger
}

type purgeOption func(*purgeConfig)

func (f purgeOption) applyPurge(c *purgeConfig) { f(c) }

// WithPurgeInterval says how often [Purger.Run] makes a pass. The default is ten minutes. A
// shorter one matters only where marks are kept for minutes.
func WithPurgeInterval(d time.Duration) PurgeOption {
	return purgeOption(func(c *purgeConfig) { c.interval = d })
}

// WithDeleteRate bounds how many rows a second are deleted one by one, in steps of a number of
// rows that commit each. The default is 20,000 in steps of 1,000, which costs handlers at full
// speed a tenth of it; deleting as fast as the server can costs them nearly half. Partitions that go
// whole are not counted.
func WithDeleteRate(rowsPerSecond, step int) PurgeOption {
	return purgeOption(func(c *purgeConfig) { c.rowsPerSecond, c.batch = rowsPerSecond, step })
}

// WithDropWait bounds how long the purger waits for the lock that it needs to empty or drop a
// partition. Handlers that come meanwhile stand behind it, so this bounds what they lose. The
// default is 100 milliseconds. Where the lock cannot be had in this time, the next pass tries
// again; emptying a partition does not wait for handlers at all, unless they work on messages as old.
func WithDropWait(d time.Duration) PurgeOption {
	return purgeOption(func(c *purgeConfig) { c.lockWait = d })
}

// WithSnapshotWait bounds how long a pass waits for statements that began before it announced
// what it will remove. The default is ten seconds. Whatever takes longer is left to a later pass.
func WithSnapshotWait(d time.Duration) PurgeOption {
	return purgeOption(func(c *purgeConfig) { c.snapshotWait = d })
}

// WithPurgeLogger is told of each pass that [Purger.Run] makes. The default discards.
func WithPurgeLogger(l *slog.Logger) PurgeOption {
	return purgeOption(func(c *purgeConfig) { c.logger = l })
}

func newPurgeConfig(opts []PurgeOption) (purgeConfig, error) {
	c := purgeConfig{
		interval: 10 * time.Minute, rowsPerSecond: 20_000, batch: 1000,
		lockWait: 100 * time.Millisecond, snapshotWait: 10 * time.Second,
		logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o.applyPurge(&c)
	}
	switch {
	case c.interval < time.Millisecond:
		return c, fmt.Errorf("WithPurgeInterval(%s): the least is a millisecond, and ten minutes are usual", c.interval)
	case c.batch < 1 || c.batch > 100_000:
		return c, fmt.Errorf("WithDeleteRate: steps of %d rows: between 1 and 100000", c.batch)
	case c.rowsPerSecond < 1:
		return c, fmt.Errorf("WithDeleteRate: %d rows a second: it must be above zero", c.rowsPerSecond)
	case c.lockWait < time.Millisecond || c.lockWait > time.Minute:
		return c, fmt.Errorf("WithDropWait(%s): between a millisecond and a minute, for which handlers may stand still", c.lockWait)
	case c.snapshotWait < 0:
		return c, fmt.Errorf("WithSnapshotWait(%s): it must not be negative", c.snapshotWait)
	case c.logger == nil:
		return c, errors.New("WithPurgeLogger: the logger is nil: leave the option out for silence")
	}
	return c, nil
}
