package memstore

import (
	"bytes"
	"cmp"
	"context"
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

// lockKey names what one transaction at a time may hold: a mark, or a row when row is
// true.
type lockKey struct {
	mark markKey
	name string
	row  bool
}

func (k lockKey) String() string {
	if k.row {
		return "row " + k.name
	}
	return "mark " + k.mark.key.ID.String()
}

// lock makes tx the holder of k. Whoever holds it is waited for until he ends, the
// deadline passes or ctx ends. The caller holds s.mu, which is free while waiting.
func (s *Store) lock(ctx context.Context, tx *Tx, k lockKey, deadline time.Time) error {
	for {
		holder, held := s.locks[k]
		if !held {
			s.locks[k] = tx
			tx.locks = append(tx.locks, k)
			return nil
		}
		if holder == tx {
			return nil
		}
		// Each transaction waits for one other at most, so a ring is a chain that comes
		// back. Without the look, both would sit out the limit, and then once more.
		for other := holder.waitsFor; other != nil; other = other.waitsFor {
			if other == tx {
				return failf(store.FaultConflict, "%s: deadlock: its holder waits for this transaction", k)
			}
		}
		tx.waitsFor = holder
		s.mu.Unlock()
		err := s.await(ctx, holder, k, deadline)
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
