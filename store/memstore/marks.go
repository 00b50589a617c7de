package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

var (
	_ store.Marks[*Tx]    = (*Store)(nil)
	_ store.TxMarker[*Tx] = (*Store)(nil)
)

// mode is what a view of the store decides by.
type mode struct{ keys, positions bool }

// fact is what is kept of a mark beside its key.
type fact struct {
	print store.ID
	at    time.Time // what its removal goes by
}

// Begin implements [store.Marks].
func (s *Store) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*Tx], []store.Status, error) {
	return s.beginUnit(ctx, mode{keys: true}, marks)
}

func (s *Store) beginUnit(ctx context.Context, by mode, marks []store.Mark) (store.Unit[*Tx], []store.Status, error) {
	tx, statuses, err := s.begin(ctx, by, marks)
	if err != nil {
		return nil, nil, err
	}
	return &unit{s: s, mode: by, tx: tx}, statuses, nil
}

func (s *Store) begin(ctx context.Context, by mode, marks []store.Mark) (*Tx, []store.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := s.newTx()
	statuses, err := s.mark(ctx, tx, by, marks)
	if err != nil {
		tx.end()
		return nil, nil, err
	}
	return tx, statuses, nil
}

// MarkTx implements [store.TxMarker].
func (s *Store) MarkTx(ctx context.Context, tx *Tx, marks []store.Mark) ([]store.Status, error) {
	return s.markTx(ctx, tx, mode{keys: true}, marks)
}

func (s *Store) markTx(ctx context.Context, tx *Tx, by mode, marks []store.Mark) ([]store.Status, error) {
	if tx.s != s {
		return nil, failf(store.FaultHandler, "mark: the transaction belongs to another store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.usable(); err != nil {
		return nil, err
	}
	statuses, err := s.mark(ctx, tx, by, marks)
	if err != nil {
		return nil, tx.spoil(err)
	}
	return statuses, nil
}

// mark moves the positions, sets the keys and then looks at what is parked: a rival that was
// waited for may have parked an ordering key.
func (s *Store) mark(ctx context.Context, tx *Tx, by mode, marks []store.Mark) ([]store.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "mark: %w", err)
	}
	deadline := time.Now().Add(s.lockWait)
	statuses := make([]store.Status, len(marks))
	for i := range statuses {
		statuses[i] = store.New
	}
	if by.positions {
		if err := s.moveFences(ctx, tx, marks, statuses, deadline); err != nil {
			return nil, err
		}
	}
	if by.keys {
		if err := s.setKeys(ctx, tx, marks, statuses, deadline); err != nil {
			return nil, err
		}
	}
	if err := s.lookParked(ctx, tx, marks, statuses, deadline); err != nil {
		return nil, err
	}
	return statuses, nil
}

// setKeys goes in the order of the keys, whatever order the marks come in: two calls with
// the same keys then never hold one each and wait for the other. What a position has passed stays
// Seen, whatever its key says.
func (s *Store) setKeys(ctx context.Context, tx *Tx, marks []store.Mark, statuses []store.Status, deadline time.Time) error {
	for _, i := range sorted(marks, func(a, b *store.Mark) int { return keyOf(a).compare(keyOf(b)) }) {
		status, err := s.setKey(ctx, tx, &marks[i], deadline)
		if err != nil {
			return err
		}
		if statuses[i] == store.New {
			statuses[i] = status
		}
	}
	return nil
}

func (s *Store) setKey(ctx context.Context, tx *Tx, m *store.Mark, deadline time.Time) (store.Status, error) {
	k := keyOf(m)
	if status, known := s.known(tx, m); known {
		return status, nil
	}
	if err := s.lock(ctx, tx, lockKey{kind: markLock, mark: k}, deadline); err != nil {
		return 0, err
	}
	// The rival that was waited for may have committed.
	if status, known := s.known(tx, m); known {
		s.unlock(tx)
		return status, nil
	}
	at := m.OwnTime()
	switch {
	case at.IsZero():
		at = time.Now()
	case at.Before(s.purgedBefore(m.Scope)):
		s.unlock(tx)
		return store.Late, nil
	}
	if tx.marks == nil {
		tx.marks = make(map[markKey]fact)
	}
	tx.marks[k] = fact{m.Fingerprint, at}
	return store.New, nil
}

// known is what there is to say of a mark that is committed or that tx itself has set.
func (s *Store) known(tx *Tx, m *store.Mark) (store.Status, bool) {
	f, there := s.committed[keyOf(m)]
	if !there {
		f, there = tx.marks[keyOf(m)]
	}
	switch {
	case !there:
		return 0, false
	case !f.print.IsZero() && !m.Fingerprint.IsZero() && f.print != m.Fingerprint:
		return store.Mismatched, true
	default:
		return store.Seen, true
	}
}

func keyOf(m *store.Mark) markKey { return markKey{m.Scope, m.Key} }

// sorted returns the indexes of the marks in an order; of equal marks the first stays first.
func sorted(marks []store.Mark, compare func(a, b *store.Mark) int) []int {
	idx := make([]int, len(marks))
	for i := range idx {
		idx[i] = i
	}
	slices.SortStableFunc(idx, func(a, b int) int { return compare(&marks[a], &marks[b]) })
	return idx
}
