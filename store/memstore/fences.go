package memstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// Fenced is the store for consumers that read a log in order: it keeps the position of the last
// message applied of each partition instead of a mark per message. See [store.Fences] for what
// that needs. A producer's retry has a position of its own, and only keys catch it:
// [Store.FencedMarks] keeps both.
type Fenced struct {
	*Store
	mode mode
}

var (
	_ store.Marks[*Tx]    = Fenced{}
	_ store.TxMarker[*Tx] = Fenced{}
	_ store.Burier[*Tx]   = Fenced{}
	_ store.Reviver[*Tx]  = Fenced{}
	_ store.Fences        = Fenced{}
)

// Fenced returns the view of the store that keeps positions and no keys.
func (s *Store) Fenced() Fenced { return Fenced{s, mode{positions: true}} }

// FencedMarks returns the view of the store that keeps positions and keys: a message is new where
// both say so.
func (s *Store) FencedMarks() Fenced { return Fenced{s, mode{positions: true, keys: true}} }

// Keyless implements [store.Fences].
func (f Fenced) Keyless() bool { return !f.mode.keys }

// Begin implements [store.Marks]. Every mark must have a place.
func (f Fenced) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*Tx], []store.Status, error) {
	return f.beginUnit(ctx, f.mode, marks)
}

// MarkTx implements [store.TxMarker]. Every mark must have a place.
func (f Fenced) MarkTx(ctx context.Context, tx *Tx, marks []store.Mark) ([]store.Status, error) {
	return f.markTx(ctx, tx, f.mode, marks)
}

// Revive implements [store.Reviver].
func (f Fenced) Revive(ctx context.Context, id int64) (store.Unit[*Tx], store.DeadLetter, error) {
	return f.revive(ctx, f.mode, id)
}

// fenceKey is a partition as a scope sees it.
type fenceKey struct {
	scope store.Scope
	partition
}

func fenceOf(m *store.Mark) fenceKey {
	return fenceKey{m.Scope, partition{m.Place.Log, m.Place.Partition}}
}

func (k fenceKey) compare(o fenceKey) int {
	return cmp.Or(cmp.Compare(k.scope, o.scope), cmp.Compare(k.log, o.log), cmp.Compare(k.number, o.number))
}

func (k fenceKey) lock() lockKey {
	return lockKey{kind: fenceLock, mark: markKey{scope: k.scope}, name: k.log, number: int64(k.number)}
}

// moveFences takes the partitions in one order, whatever order the marks come in, and moves each
// position to the furthest of its marks. A mark's status is by where the position was before.
func (s *Store) moveFences(ctx context.Context, tx *Tx, marks []store.Mark, statuses []store.Status, deadline time.Time) error {
	for i := range marks {
		if marks[i].Place == nil {
			return failf(store.FaultHandler, "mark: mark %d has no place where positions are kept", i+1)
		}
	}
	idx := sorted(marks, func(a, b *store.Mark) int { return fenceOf(a).compare(fenceOf(b)) })
	for start := 0; start < len(idx); {
		k := fenceOf(&marks[idx[start]])
		end := start + 1
		for end < len(idx) && fenceOf(&marks[idx[end]]) == k {
			end++
		}
		if err := s.moveFence(ctx, tx, k, marks, idx[start:end], statuses, deadline); err != nil {
			return err
		}
		start = end
	}
	return nil
}

func (s *Store) moveFence(ctx context.Context, tx *Tx, k fenceKey, marks []store.Mark, idx []int, statuses []store.Status, deadline time.Time) error {
	if err := s.lock(ctx, tx, k.lock(), deadline); err != nil {
		return err
	}
	before := s.fence(tx, k)
	after := before
	met := make(map[int64]bool)
	for _, i := range idx {
		p := marks[i].Place
		if p.Epoch != before.Epoch {
			return failf(store.FaultBusy, "%s: epoch %d where it is %d: %w", k.lock(), p.Epoch, before.Epoch, store.ErrLost)
		}
		if committed := p.Known - 1; before.Offset < committed {
			return failf(store.FaultBusy, "%s: it is at %d and %d was committed: %w", k.lock(), before.Offset, committed, store.ErrLost)
		}
		if p.Offset <= before.Offset || met[p.Offset] {
			statuses[i] = store.Seen
		}
		met[p.Offset] = true
		if p.Offset > after.Offset {
			after.Offset, after.Record = p.Offset, p.Record
		}
	}
	if after != before {
		tx.setFence(k, after)
	}
	return nil
}

// fence is the position as tx sees it, or as it is committed where tx is nil.
func (s *Store) fence(tx *Tx, k fenceKey) store.Applied {
	if tx != nil {
		if at, ok := tx.fences[k]; ok {
			return at
		}
	}
	if at, ok := s.fences[k]; ok {
		return at
	}
	return store.Applied{Offset: -1}
}

func (t *Tx) setFence(k fenceKey, at store.Applied) {
	if t.fences == nil {
		t.fences = make(map[fenceKey]store.Applied)
	}
	t.fences[k] = at
}

// Applied implements [store.Fences].
func (f Fenced) Applied(ctx context.Context, scope store.Scope, log string, number int) (store.Applied, error) {
	if err := ctx.Err(); err != nil {
		return store.Applied{}, failf(store.FaultCanceled, "position of %s/%d: %w", log, number, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fence(nil, fenceKey{scope, partition{log, number}}), nil
}

// RestartFence implements [store.Fences]. It waits for a transaction that moves the position.
func (f Fenced) RestartFence(ctx context.Context, scope store.Scope, log string, number int, expected store.Applied, offset int64) (store.Applied, error) {
	if offset < -1 {
		return store.Applied{}, fmt.Errorf("memstore: restart the position of %s/%d at %d: -1 is the least, and means that nothing is applied", log, number, offset)
	}
	if err := ctx.Err(); err != nil {
		return store.Applied{}, failf(store.FaultCanceled, "restart the position of %s/%d: %w", log, number, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := fenceKey{scope, partition{log, number}}
	tx := f.newTx()
	if err := f.lock(ctx, tx, k.lock(), time.Now().Add(f.lockWait)); err != nil {
		tx.end()
		return store.Applied{}, err
	}
	if at := f.fence(tx, k); at.Offset != expected.Offset || at.Epoch != expected.Epoch {
		tx.end()
		return store.Applied{}, failf(store.FaultBusy, "restart the %s: it is at %d in epoch %d, not at %d in epoch %d: %w",
			k.lock(), at.Offset, at.Epoch, expected.Offset, expected.Epoch, store.ErrLost)
	}
	next := store.Applied{Offset: offset, Epoch: expected.Epoch + 1}
	tx.setFence(k, next)
	tx.commit()
	return next, nil
}
