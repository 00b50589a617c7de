package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// leases are a memory store with faults, and a record of what a guard did with it.
type leases struct {
	*memstore.Store
	mu    sync.Mutex
	calls []string

	claim    func() error
	extend   func(ctx context.Context, n int) error
	extended func(n int)
	complete func(real func() error) error
	release  func(real func() error) error

	extends int
}

func newLeases() *leases { return &leases{Store: memstore.New()} }

func (l *leases) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, fmt.Sprintf(format, args...))
}

func (l *leases) Fault(err error) store.Fault {
	var f *faulty
	if errors.As(err, &f) {
		return f.fault
	}
	return l.Store.Fault(err)
}

func (l *leases) Claim(ctx context.Context, key store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
	if l.claim != nil {
		if err := l.claim(); err != nil {
			return store.Claim{}, err
		}
	}
	c, err := l.Store.Claim(ctx, key, p)
	l.note("claim %s, takeover %t", c.State, c.Takeover)
	return c, err
}

func (l *leases) Extend(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
	l.mu.Lock()
	l.extends++
	n := l.extends
	l.mu.Unlock()
	if l.extend != nil {
		if err := l.extend(ctx, n); err != nil {
			return c, err
		}
	}
	c, err := l.Store.Extend(ctx, c, by)
	if l.extended != nil {
		l.extended(n)
	}
	return c, err
}

func (l *leases) Complete(ctx context.Context, c store.Claim, result []byte) error {
	real := func() error { return l.Store.Complete(ctx, c, result) }
	err := error(nil)
	if l.complete != nil {
		err = l.complete(real)
	} else {
		err = real()
	}
	l.note("complete: %v", err)
	return err
}

func (l *leases) Release(ctx context.Context, c store.Claim) error {
	real := func() error { return l.Store.Release(ctx, c) }
	err := error(nil)
	if l.release != nil {
		err = l.release(real)
	} else {
		err = real()
	}
	l.note("release: %v", err)
	return err
}
