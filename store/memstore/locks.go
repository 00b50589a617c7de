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

type markKey struct {
	scope store.Scope
	key   store.Key
}

func (k markKey) compare(o markKey) int {
	switch {
	case k.scope != o.scope:
		return cmp.Compare(k.scope, o.scope)
	case k.key.Timed != o.key.Timed:
		if o.key.Timed {
			return -1
		}
		return 1
	default:
		return bytes.Compare(k.key.ID[:], o.key.ID[:])
	}
}

type lockKind uint8

const (
	markLock lockKind = iota + 1
	rowLock
	fenceLock
	letterLock
	orderLock
)

// lockKey names what a transaction may hold. The fields that its kind has no use for are zero.
type lockKey struct {
	kind   lockKind
	mark   markKey // markLock; of a fence the scope
	name   string  // of a row, of a fence's log, of an ordering key's consumer
	number int64   // of a letter, of a fence's partition
	order  store.ID
}

func (k lockKey) String() string {
	switch k.kind {
	case rowLock:
		return "row " + k.name
	case fenceLock:
		return fmt.Sprintf("position of %s/%d", k.name, k.number)
	case letterLock:
		return fmt.Sprintf("dead letter %d", k.number)
	case orderLock:
		return fmt.Sprintf("ordering key %s of %q", k.order, k.name)
	default:
		return "mark " + k.mark.key.ID.String()
	}
}

// lock makes tx the only holder of k. Whoever holds it is waited for until he ends, the
// deadline passes or ctx ends. The caller holds s.mu, which is free while waiting.
func (s *Store) lock(ctx context.Context, tx *Tx, k lockKey, deadline time.Time) error {
	if err := s.awaitRivals(ctx, tx, k, false, deadline); err != nil {
		return err
	}
	if s.locks[k] != tx {
		s.locks[k] = tx
		tx.locks = append(tx.locks, k)
	}
	return nil
}

// share makes tx one of those that hold k together: they keep out whoever wants it alone.
func (s *Store) share(ctx context.Context, tx *Tx, k lockKey, deadline time.Time) error {
	if err := s.awaitRivals(ctx, tx, k, true, deadline); err != nil {
		return err
	}
	if !slices.Contains(s.shares[k], tx) {
		s.shares[k] = append(s.shares[k], tx)
		tx.shares = append(tx.shares, k)
	}
	return nil
}

func (s *Store) awaitRivals(ctx context.Context, tx *Tx, k lockKey, sharing bool, deadline time.Time) error {
	for {
		rivals := s.rivals(tx, k, sharing)
		if len(rivals) == 0 {
			return nil
		}
		// Without the look, those in a ring would sit out the limit, and then once more.
		for _, r := range rivals {
			if r.waitsOn(tx) {
				return failf(store.FaultConflict, "%s: deadlock: its holder waits for this transaction", k)
			}
		}
		tx.waitsFor = rivals
		s.mu.Unlock()
		err := s.await(ctx, rivals[0], k, deadline)
		s.mu.Lock()
		tx.waitsFor = nil
		if err != nil {
			return err
		}
		// A handler that leaves a goroutine behind may get here after its transaction is
		// over. A lock taken now would have nobody to free it.
		if tx.ended {
			return store.ErrEnded
		}
	}
}

// rivals are those whose hold of k keeps tx out.
func (s *Store) rivals(tx *Tx, k lockKey, sharing bool) []*Tx {
	var rivals []*Tx
	if holder, held := s.locks[k]; held && holder != tx {
		rivals = append(rivals, holder)
	}
	if !sharing {
		for _, t := range s.shares[k] {
			if t != tx {
				rivals = append(rivals, t)
			}
		}
	}
	return rivals
}

// waitsOn tells whether t cannot go on before other does. No ring is ever closed, so this ends.
func (t *Tx) waitsOn(other *Tx) bool {
	return slices.ContainsFunc(t.waitsFor, func(r *Tx) bool { return r == other || r.waitsOn(other) })
}

func (s *Store) await(ctx context.Context, holder *Tx, k lockKey, deadline time.Time) error {
	limit := time.NewTimer(time.Until(deadline))
	defer limit.Stop()
	select {
	case <-holder.gone:
		return nil
	case <-ctx.Done():
		return failf(store.FaultCanceled, "%s: wait for a rival: %w", k, ctx.Err())
	case <-limit.C:
		return failf(store.FaultBusy, "%s: held by another transaction for longer than %s", k, s.lockWait)
	}
}

// unlock frees what tx took last.
func (s *Store) unlock(tx *Tx) {
	last := len(tx.locks) - 1
	delete(s.locks, tx.locks[last])
	tx.locks = tx.locks[:last]
}

// unlockAll frees everything that tx holds.
func (s *Store) unlockAll(tx *Tx) {
	for _, k := range tx.locks {
		delete(s.locks, k)
	}
	for _, k := range tx.shares {
		rest := slices.DeleteFunc(s.shares[k], func(t *Tx) bool { return t == tx })
		if len(rest) == 0 {
			delete(s.shares, k)
		} else {
			s.shares[k] = rest
		}
	}
}
