package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

var (
	_ store.Marks[*Tx]    = (*Store)(nil)
	_ store.TxMarker[*Tx] = (*Store)(nil)
)

// Scope implements [store.Marks]. Names are as [store.CheckConsumer] wants them.
func (s *Store) Scope(ctx context.Context, consumer string) (store.Scope, error) {
	if err := store.CheckConsumer(consumer); err != nil {
		return 0, fmt.Errorf("memstore: scope: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "scope %q: %w", consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, ok := s.scopes[consumer]
	if !ok {
		scope = store.Scope(len(s.scopes) + 1)
		s.scopes[consumer] = scope
	}
	return scope, nil
}

// Begin implements [store.Marks].
func (s *Store) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*Tx], []store.Status, error) {
	tx, statuses, err := s.begin(ctx, marks)
	if err != nil {
		return nil, nil, err
	}
	return &unit{s: s, tx: tx}, statuses, nil
}

func (s *Store) begin(ctx context.Context, marks []store.Mark) (*Tx, []store.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := s.newTx()
	statuses, err := s.mark(ctx, tx, marks)
	if err != nil {
		tx.end()
		return nil, nil, err
	}
	return tx, statuses, nil
}

// MarkTx implements [store.TxMarker].
func (s *Store) MarkTx(ctx context.Context, tx *Tx, marks []store.Mark) ([]store.Status, error) {
	if tx.s != s {
		return nil, failf(store.FaultHandler, "mark: the transaction belongs to another store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.usable(); err != nil {
		return nil, err
	}
	statuses, err := s.mark(ctx, tx, marks)
	if err != nil {
		return nil, tx.spoil(err)
	}
	return statuses, nil
}

// mark sets marks in the order of their keys, whatever order they come in: two calls with
// the same keys then never hold one each and wait for the other.
func (s *Store) mark(ctx context.Context, tx *Tx, marks []store.Mark) ([]store.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "mark: %w", err)
	}
	deadline := time.Now().Add(s.lockWait)
	statuses := make([]store.Status, len(marks))
	for _, i := range order(marks) {
		status, err := s.markOne(ctx, tx, keyOf(marks[i]), deadline)
		if err != nil {
			return nil, err
		}
		statuses[i] = status
	}
	return statuses, nil
}

func (s *Store) markOne(ctx context.Context, tx *Tx, k markKey, deadline time.Time) (store.Status, error) {
	if _, done := s.committed[k]; done {
		return store.Seen, nil
	}
	l := lockKey{mark: k}
	if s.locks[l] == tx {
		return store.Seen, nil
	}
	if err := s.lock(ctx, tx, l, deadline); err != nil {
		return 0, err
	}
	// The rival that was waited for may have committed.
	if _, done := s.committed[k]; done {
		s.unlock(tx)
		return store.Seen, nil
	}
	tx.marks = append(tx.marks, k)
	return store.New, nil
}

func keyOf(m store.Mark) markKey { return markKey{m.Scope, m.Key} }

// order returns the indexes of the marks sorted by key; of equal marks the first stays
// first.
func order(marks []store.Mark) []int {
	idx := make([]int, len(marks))
	for i := range idx {
		idx[i] = i
	}
	slices.SortStableFunc(idx, func(a, b int) int {
		return keyOf(marks[a]).compare(keyOf(marks[b]))
	})
	return idx
}
