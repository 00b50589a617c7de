package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// consumer is what is known of one scope.
type consumer struct {
	scope store.Scope
	name  string
	keep  time.Duration

	// reached is how far it has come in each partition, purged the time before which its marks
	// have been removed.
	reached map[partition]time.Time
	purged  time.Time
}

// partition is one of a log.
type partition struct {
	log    string
	number int
}

// Scope implements [store.Marks]. Names are as [store.CheckConsumer] wants them.
func (s *Store) Scope(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
	if err := store.CheckConsumer(name); err != nil {
		return 0, fmt.Errorf("memstore: scope: %w", err)
	}
	if keep < time.Millisecond {
		return 0, fmt.Errorf("memstore: scope %q: marks kept for %s: a millisecond is the least", name, keep)
	}
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "scope %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.consumers[name]
	if !ok {
		c = &consumer{scope: store.Scope(len(s.consumers) + 1), name: name, reached: make(map[partition]time.Time)}
		s.consumers[name] = c
		s.scopes[c.scope] = c
	}
	c.keep = keep
	return c.scope, nil
}

// purgedBefore is the time before which marks of a scope have been removed.
func (s *Store) purgedBefore(scope store.Scope) time.Time {
	if c, ok := s.scopes[scope]; ok {
		return c.purged
	}
	return time.Time{}
}
