package memstore

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.Attempts = (*Store)(nil)

// tally is what was counted of a message.
type tally struct {
	store.Tally
	begun   bool // the last start was not taken back
	starter string
	at      time.Time
}

// tenure is who entered a partition last, and whether he has left in order.
type tenure struct {
	owner string
	left  bool
}

// Spend implements [store.Attempts].
func (s *Store) Spend(ctx context.Context, scope store.Scope, key store.Key) (int, error) {
	t, err := s.count(ctx, scope, key, func(t *tally) {
		t.Spent++
		t.Starts, t.begun = 0, false
	})
	return t.Spent, err
}

// Start implements [store.Attempts].
func (s *Store) Start(ctx context.Context, scope store.Scope, key store.Key, starter string) (store.Tally, error) {
	return s.count(ctx, scope, key, func(t *tally) {
		if !t.begun || t.starter != starter {
			t.Starts++
		}
		t.begun, t.starter = true, starter
	})
}

func (s *Store) count(ctx context.Context, scope store.Scope, key store.Key, change func(*tally)) (store.Tally, error) {
	if err := ctx.Err(); err != nil {
		return store.Tally{}, failf(store.FaultCanceled, "count an attempt: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := markKey{scope, key}
	t, ok := s.tallies[k]
	if !ok {
		t = &tally{}
		s.tallies[k] = t
	}
	t.at = time.Now()
	change(t)
	return t.Tally, nil
}

// Survive implements [store.Attempts].
func (s *Store) Survive(ctx context.Context, scope store.Scope, key store.Key, starter string) error {
	if err := ctx.Err(); err != nil {
		return failf(store.FaultCanceled, "take a start back: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tallies[markKey{scope, key}]; t != nil && t.begun && t.starter == starter {
		t.Starts--
		t.begun = false
	}
	return nil
}

// Forget implements [store.Attempts].
func (s *Store) Forget(ctx context.Context, scope store.Scope, key store.Key) error {
	if err := ctx.Err(); err != nil {
		return failf(store.FaultCanceled, "forget attempts: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tallies, markKey{scope, key})
	return nil
}

// Enter implements [store.Attempts]. Whoever enters first, or again without having left, is in
// order: nobody has died.
func (s *Store) Enter(ctx context.Context, scope store.Scope, log string, number int, owner string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, failf(store.FaultCanceled, "enter %s/%d: %w", log, number, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := fenceKey{scope, partition{log, number}}
	former, entered := s.tenures[k]
	s.tenures[k] = tenure{owner: owner}
	return !entered || former.left || former.owner == owner, nil
}

// Leave implements [store.Attempts].
func (s *Store) Leave(ctx context.Context, scope store.Scope, log string, number int, owner string) error {
	if err := ctx.Err(); err != nil {
		return failf(store.FaultCanceled, "leave %s/%d: %w", log, number, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := fenceKey{scope, partition{log, number}}
	if s.tenures[k].owner == owner {
		s.tenures[k] = tenure{owner: owner, left: true}
	}
	return nil
}
