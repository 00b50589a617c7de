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
		newest := r.Newest
		if newest.IsZero() {
			newest = now
		}
		if newest.After(c.reached[p]) && !newest.After(now) {
			c.reached[p] = newest
		}
	}
	return nil
}

// Purged is what one call of [Store.Purge] removed.
type Purged struct {
	Marks int
	// Attempts is of how many messages the counts were removed.
	Attempts int
}

// leastTally: a message may be tried again for longer than its consumer keeps marks.
const leastTally = 30 * 24 * time.Hour

// Purge removes the marks that are older than their consumers want them kept. The age of a mark is
// that of its message, measured from the newest message settled in the partition that is
// furthest behind (see [Store.Reached]). What was counted of a message goes when nothing has been
// added to it for that time, a month at least. Nobody calls it but a program that wants marks to go.
func (s *Store) Purge(ctx context.Context) (Purged, error) {
	if err := ctx.Err(); err != nil {
		return Purged{}, failf(store.FaultCanceled, "purge: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.scopes {
		c.advance()
	}
	var done Purged
	for k, f := range s.committed {
		if f.at.Before(s.purgedBefore(k.scope)) {
			delete(s.committed, k)
			done.Marks++
		}
	}
	for k, t := range s.tallies {
		if c, ok := s.scopes[k.scope]; ok && time.Since(t.at) > max(c.keep, leastTally) {
			delete(s.tallies, k)
			done.Attempts++
		}
	}
	return done, nil
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
