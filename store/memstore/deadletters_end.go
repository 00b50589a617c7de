package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.Reviver[*Tx] = (*Store)(nil)

// Revive implements [store.Reviver].
func (s *Store) Revive(ctx context.Context, id int64) (store.Unit[*Tx], store.DeadLetter, error) {
	return s.revive(ctx, mode{keys: true}, id)
}

func (s *Store) revive(ctx context.Context, by mode, id int64) (store.Unit[*Tx], store.DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := s.newTx()
	letter, err := s.take(ctx, tx, id)
	if err != nil {
		tx.end()
		return nil, store.DeadLetter{}, err
	}
	return &unit{s: s, mode: by, tx: tx}, letter, nil
}

// take removes a letter in the transaction. The letter is locked first and its ordering key
// afterwards, here and in [Store.DiscardDead].
func (s *Store) take(ctx context.Context, tx *Tx, id int64) (store.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return store.DeadLetter{}, failf(store.FaultCanceled, "revive dead letter %d: %w", id, err)
	}
	deadline := time.Now().Add(s.lockWait)
	if err := s.lock(ctx, tx, lockKey{kind: letterLock, number: id}, deadline); err != nil {
		return store.DeadLetter{}, err
	}
	i, ok := s.dead.find(id)
	if !ok {
		return store.DeadLetter{}, fmt.Errorf("memstore: revive dead letter %d: %w", id, store.ErrNotFound)
	}
	letter := cloneLetter(s.dead.letters[i])
	if k, queued := queueOf(&letter); queued {
		if err := s.lock(ctx, tx, k.lock(), deadline); err != nil {
			return store.DeadLetter{}, err
		}
		// Whoever was ahead may have gone while the lock was waited for, so this looks last.
		if s.dead.queues[k][0] != id {
			return store.DeadLetter{}, fmt.Errorf("memstore: revive dead letter %d: %w", id, store.ErrBehind)
		}
	}
	tx.taken = append(tx.taken, id)
	return letter, nil
}

// DiscardDead implements [store.DeadLetters]. A letter that is being run again is waited for, within
// the limit on lock waits.
func (s *Store) DiscardDead(ctx context.Context, ids ...int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "discard dead letters: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := s.newTx()
	if err := s.takeAll(ctx, tx, ids); err != nil {
		tx.end()
		return 0, err
	}
	n := len(tx.taken)
	tx.commit()
	return n, nil
}

func (s *Store) takeAll(ctx context.Context, tx *Tx, ids []int64) error {
	deadline := time.Now().Add(s.lockWait)
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var locks []lockKey
	for _, id := range slices.Compact(ids) {
		if err := s.lock(ctx, tx, lockKey{kind: letterLock, number: id}, deadline); err != nil {
			return err
		}
		i, ok := s.dead.find(id)
		if !ok {
			continue
		}
		tx.taken = append(tx.taken, id)
		if k, queued := queueOf(&s.dead.letters[i]); queued {
			locks = append(locks, k.lock())
		}
	}
	slices.SortFunc(locks, func(a, b lockKey) int {
		return cmp.Or(cmp.Compare(a.name, b.name), bytes.Compare(a.order[:], b.order[:]))
	})
	for _, k := range locks {
		if err := s.lock(ctx, tx, k, deadline); err != nil {
			return err
		}
	}
	return nil
}
