package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// bent is a memory store with a fault in it, and a record of what a guard did with it.
type bent struct {
	*memstore.Store

	mu     sync.Mutex
	record []string
	open   int

	// begin, where it is set, may refuse a transaction; commit may end one otherwise than by
	// the commit that it is given.
	begin  func(n int) error
	commit func(n int, real func() (store.End, error)) (store.End, error)
	next   func(n int) error // refuses the second half of Next
	begun  func()            // is called once a transaction is open

	begins, commits, nexts int
}

func newBent() *bent { return &bent{Store: memstore.New()} }

// faulty is an error whose fault is known.
type faulty struct{ fault store.Fault }

func (f *faulty) Error() string { return "fault: " + f.fault.String() }

func (b *bent) Fault(err error) store.Fault {
	var f *faulty
	if errors.As(err, &f) {
		return f.fault
	}
	return b.Store.Fault(err)
}

func (b *bent) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record = append(b.record, fmt.Sprintf(format, args...))
}

func (b *bent) count(n *int, open int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
	b.open += open
	return *n
}

func (b *bent) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*memstore.Tx], []store.Status, error) {
	n := b.count(&b.begins, 0)
	if b.begin != nil {
		if err := b.begin(n); err != nil {
			b.note("begin: %v", err)
			return nil, nil, err
		}
	}
	u, statuses, err := b.Store.Begin(ctx, marks)
	if err != nil {
		b.note("begin: %v", err)
		return nil, nil, err
	}
	b.note("begin %v", statuses)
	b.count(new(int), 1)
	if b.begun != nil {
		b.begun()
	}
	return &bentUnit{Unit: u, b: b, open: true}, statuses, nil
}

type bentUnit struct {
	store.Unit[*memstore.Tx]
	b    *bent
	open bool
}

func (u *bentUnit) closed() {
	if u.open {
		u.open = false
		u.b.count(new(int), -1)
	}
}

func (u *bentUnit) end(ctx context.Context) (store.End, error) {
	real := func() (store.End, error) { return u.Unit.Commit(ctx) }
	end, err := store.End(0), error(nil)
	if n := u.b.count(&u.b.commits, 0); u.b.commit != nil {
		end, err = u.b.commit(n, real)
		_ = u.Unit.Rollback(ctx)
	} else {
		end, err = real()
	}
	return end, err
}

func (u *bentUnit) Commit(ctx context.Context) (store.End, error) {
	end, err := u.end(ctx)
	u.closed()
	u.b.note("commit: %s", end)
	return end, err
}

func (u *bentUnit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	end, err := u.end(ctx)
	if err != nil {
		u.closed()
		u.b.note("next: %s", end)
		return end, nil, err
	}
	if n := u.b.count(&u.b.nexts, 0); u.b.next != nil {
		if err := u.b.next(n); err != nil {
			u.closed()
			u.b.note("next: %s, %v", end, err)
			return end, nil, err
		}
	}
	unit, statuses, err := u.b.Store.Begin(ctx, marks)
	if err != nil {
		u.closed()
		u.b.note("next: %s, %v", end, err)
		return end, nil, err
	}
	u.Unit = unit
	u.b.note("next: %s %v", end, statuses)
	return end, statuses, nil
}

func (u *bentUnit) Fault(err error) store.Fault {
	var f *faulty
	if errors.As(err, &f) {
		return f.fault
	}
	return u.Unit.Fault(err)
}

func (u *bentUnit) Rollback(ctx context.Context) error {
	if u.open {
		u.b.note("rollback")
	}
	u.closed()
	return u.Unit.Rollback(ctx)
}

// idle checks that no transaction is left open.
func (b *bent) idle(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != 0 {
		t.Errorf("%d transactions are left open after %q", b.open, b.record)
	}
}

func (b *bent) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record, b.begins, b.commits, b.nexts = nil, 0, 0, 0
}
