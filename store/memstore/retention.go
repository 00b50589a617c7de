package memstore

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.Retention = (*Store)(nil)

// Reached implements [store.Retention].
func (s *Store) Reached(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
	if err := ctx.Err(); err != nil {
		return failf(store.FaultCanceled, "note what is reached: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.scopes[scope]
	if !ok {
		return failf(store.FaultHandler, "note what is reached: nobody has asked for scope %d", scope)
	}
	now := time.Now()
	for _, r := range partitions {
		p := partition{r.Log, r.Partition}
		if r.Newest.After(c.reached[p]) && !r.Newest.After(now) {
			c.reached[p] = r.Newest
		}
	}
	return nil
}

// Purge removes the marks, and what was counted of messages, that are older than their consumers
// want them kept, and returns how many marks it removed. The age of a mark is that of its message,
// measured from the newest message settled in the partition that is furthest behind (see
// [Store.Reached]). Nothing calls it: a program that wants marks to go calls it now and then.
func (s *Store) Purge(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "purge: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.scopes {
		c.advance()
	}
	removed := 0
	for k, f := range s.committed {
		if f.at.Before(s.purgedBefore(k.scope)) {
			delete(s.committed, k)
			removed++
		}
	}
	for k, t := range s.tallies {
		if t.at.Before(s.purgedBefore(k.scope)) {
			delete(s.tallies, k)
		}
	}
	return removed, nil
}

// advance moves the time before which marks are removed. It never goes back: what is removed
// does not return when marks are to be kept for longer.
func (c *consumer) advance() {
	if c.keep == store.Forever || len(c.reached) == 0 {
		return
	}
	var least time.Time
	for _, newest := range c.reached {
		if least.IsZero() || newest.Before(least) {
			least = newest
		}
	}
	if before := least.Add(-c.keep); before.After(c.purged) {
		c.purged = before
	}
}
