package memstore

import (
	"context"
	"fmt"

	"github.com/semel-dev/semel/store"
)

var (
	_ store.Burier[*Tx] = (*Store)(nil)
	_ store.DeadLetters = (*Store)(nil)
)

// BuryTx implements [store.Burier]. The letter gets its ID and its BuriedAt at the commit, which
// is also when keys are parked and released: a burial needs no lock.
func (s *Store) BuryTx(ctx context.Context, tx *Tx, d store.DeadLetter) error {
	if tx.s != s {
		return failf(store.FaultHandler, "bury: the transaction belongs to another store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return tx.spoil(failf(store.FaultCanceled, "bury: %w", err))
	}
	tx.dead = append(tx.dead, cloneLetter(d))
	return nil
}

// ListDead implements [store.DeadLetters].
func (s *Store) ListDead(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "list dead letters: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead.list(f, after, limit), nil
}

// GetDead implements [store.DeadLetters].
func (s *Store) GetDead(ctx context.Context, id int64) (store.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return store.DeadLetter{}, failf(store.FaultCanceled, "get dead letter %d: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.dead.find(id)
	if !ok {
		return store.DeadLetter{}, fmt.Errorf("memstore: get dead letter %d: %w", id, store.ErrNotFound)
	}
	return cloneLetter(s.dead.letters[i]), nil
}

// FailDead implements [store.DeadLetters].
func (s *Store) FailDead(ctx context.Context, id int64, reason string) error {
	if err := ctx.Err(); err != nil {
		return failf(store.FaultCanceled, "note the failure of dead letter %d: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.dead.find(id)
	if !ok {
		return fmt.Errorf("memstore: note the failure of dead letter %d: %w", id, store.ErrNotFound)
	}
	s.dead.letters[i].Attempts++
	s.dead.letters[i].Reason = reason
	return nil
}
