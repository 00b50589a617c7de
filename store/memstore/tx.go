package memstore

import (
	"context"
	"maps"
	"time"

	"github.com/semel-dev/semel/store"
)

// Tx is what a handler works with: rows, which are numbers under a name, and everything
// else that is committed together with its mark. It has no commit and no rollback; they
// belong to whoever lent it.
//
// A Tx reads its own writes and the committed ones of others. The first write of a row
// holds it until the transaction ends; rivals wait, within the store's lock limit. As in
// the database, an error spoils the transaction: a handler that swallows it and returns
// nil gets a rollback. After the end every method returns [store.ErrEnded].
//
// A Tx is used by one goroutine at a time.
type Tx struct {
	s     *Store
	began time.Time

	// Guarded by s.mu.
	ended    bool
	spoiled  error
	marks    map[markKey]fact
	fences   map[fenceKey]store.Applied
	rows     map[string]int64
	dead     []store.DeadLetter
	taken    []int64 // letters that are gone with the commit
	events   []store.Event
	locks    []lockKey
	shares   []lockKey
	waitsFor []*Tx

	// gone is closed at the end, for those who wait.
	gone chan struct{}
}

func (s *Store) newTx() *Tx { return &Tx{s: s, began: time.Now(), gone: make(chan struct{})} }

// Get returns the value of a row, zero where there is none.
func (t *Tx) Get(name string) (int64, error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return 0, err
	}
	return t.row(name), nil
}

// Put sets the value of a row. Zero is the same as none.
func (t *Tx) Put(ctx context.Context, name string, value int64) error {
	_, err := t.write(ctx, name, func(int64) int64 { return value })
	return err
}

// Add adds n to a row and returns what that makes. No other transaction writes the row
// until this one ends, so the result may be looked at: a balance below zero is a reason
// to return an error.
func (t *Tx) Add(ctx context.Context, name string, n int64) (int64, error) {
	return t.write(ctx, name, func(v int64) int64 { return v + n })
}

func (t *Tx) write(ctx context.Context, name string, change func(int64) int64) (int64, error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, t.spoil(failf(store.FaultCanceled, "row %s: %w", name, err))
	}
	if err := t.s.lock(ctx, t, lockKey{kind: rowLock, name: name}, time.Now().Add(t.s.lockWait)); err != nil {
		return 0, t.spoil(err)
	}
	if t.rows == nil {
		t.rows = make(map[string]int64)
	}
	v := change(t.row(name))
	t.rows[name] = v
	return v, nil
}

func (t *Tx) row(name string) int64 {
	if v, ok := t.rows[name]; ok {
		return v
	}
	return t.s.rows[name]
}

// The methods below are called with s.mu held.

func (t *Tx) usable() error {
	if t.ended {
		return store.ErrEnded
	}
	if t.spoiled != nil {
		return failf(t.s.Fault(t.spoiled), "the transaction is spoiled by an earlier error: %w", t.spoiled)
	}
	return nil
}

func (t *Tx) spoil(err error) error {
	t.spoiled = err
	return err
}

func (t *Tx) commit() {
	maps.Copy(t.s.committed, t.marks)
	maps.Copy(t.s.fences, t.fences)
	maps.Copy(t.s.rows, t.rows)
	t.s.dead.exchange(t.taken, t.dead, time.Now())
	for _, e := range t.events {
		t.s.outbox.append(e, t.began)
	}
	t.end()
}

// end frees what the transaction held. What it wrote and did not commit is gone with it.
func (t *Tx) end() {
	t.s.unlockAll(t)
	t.ended = true
	close(t.gone)
}
