package memstore

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// unit implements [store.Unit]. Between two transactions it holds nothing, so the former
// one is safe before the next one waits for anybody.
type unit struct {
	s    *Store
	mode mode
	tx   *Tx
}

func (u *unit) Tx() *Tx { return u.tx }

func (u *unit) Commit(ctx context.Context) (store.End, error) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	t := u.tx
	if t.ended {
		return 0, store.ErrEnded
	}
	if err := ctx.Err(); err != nil {
		t.end()
		return store.RolledBack, failf(store.FaultCanceled, "commit: %w", err)
	}
	if err := t.usable(); err != nil {
		t.end()
		return store.RolledBack, err
	}
	t.commit()
	return store.Committed, nil
}

func (u *unit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	end, err := u.Commit(ctx)
	if err != nil {
		return end, nil, err
	}
	tx, statuses, err := u.s.begin(ctx, u.mode, marks)
	if err != nil {
		return end, nil, err
	}
	u.tx = tx
	return end, statuses, nil
}

// Fault looks at what spoiled the transaction first: a handler that lost a deadlock may
// return an error of its own that no longer says so.
func (u *unit) Fault(err error) store.Fault {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if err != nil && u.tx.spoiled != nil {
		return u.s.Fault(u.tx.spoiled)
	}
	return u.s.Fault(err)
}

func (u *unit) Rollback(context.Context) error {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if !u.tx.ended {
		u.tx.end()
	}
	return nil
}
