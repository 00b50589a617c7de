package storetest_test

import (
	"context"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
	"github.com/semel-dev/semel/store/storetest"
)

type (
	marksPlace = storetest.MarksPlace[tx]
	unit       = store.Unit[tx]

	scopeFunc  func(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error)
	beginFunc  func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error)
	markTxFunc func(ctx context.Context, t tx, marks []store.Mark) ([]store.Status, error)
	nextFunc   func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error)
)

// bentMarks is a memstore in which single acts can be replaced.
type bentMarks struct {
	s      *memstore.Store
	scope  scopeFunc
	begin  beginFunc
	markTx markTxFunc
	fault  func(error) store.Fault
}

func (b *bentMarks) Scope(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error) {
	return b.scope(ctx, consumer, keep)
}

func (b *bentMarks) Begin(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
	return b.begin(ctx, marks)
}

func (b *bentMarks) MarkTx(ctx context.Context, t tx, marks []store.Mark) ([]store.Status, error) {
	return b.markTx(ctx, t, marks)
}

func (b *bentMarks) Fault(err error) store.Fault { return b.fault(err) }

func honest(s *memstore.Store) *bentMarks {
	return &bentMarks{s, s.Scope, s.Begin, s.MarkTx, s.Fault}
}

func honestMarks(s *memstore.Store) (marksPlace, *bentMarks) {
	b := honest(s)
	return marksPlace{
		Open:    func() store.Marks[tx] { return b },
		Effects: func(name string) int { return int(b.s.Get(name)) },
		Effect: func(ctx context.Context, t tx, name string) error {
			_, err := t.Add(ctx, name, 1)
			return err
		},
		Spoil: func(ctx context.Context, t tx) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = t.Add(ctx, "spoilt", 1)
		},
		InTx: func(ctx context.Context, fn func(t tx) error) error {
			return b.s.InTx(ctx, func(_ context.Context, t tx) error { return fn(t) })
		},
	}, b
}

// bentUnit is a unit in which single acts can be replaced.
type bentUnit struct {
	unit
	commit   func(context.Context) (store.End, error)
	next     nextFunc
	rollback func(context.Context) error
	fault    func(error) store.Fault
}

func (u *bentUnit) Commit(ctx context.Context) (store.End, error) { return u.commit(ctx) }
func (u *bentUnit) Rollback(ctx context.Context) error            { return u.rollback(ctx) }
func (u *bentUnit) Fault(err error) store.Fault                   { return u.fault(err) }

func (u *bentUnit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	return u.next(ctx, marks)
}

// bendUnits replaces acts of every unit that the store opens.
func (b *bentMarks) bendUnits(bend func(u *bentUnit, marks []store.Mark, statuses []store.Status)) {
	begin := b.begin
	b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
		u, statuses, err := begin(ctx, marks)
		if err != nil {
			return nil, nil, err
		}
		bent := &bentUnit{u, u.Commit, u.Next, u.Rollback, u.Fault}
		bend(bent, marks, statuses)
		return bent, statuses, nil
	}
}

// bendMarks changes the marks of every call on their way in.
func (b *bentMarks) bendMarks(bend func(m store.Mark) store.Mark) {
	bent := func(marks []store.Mark) []store.Mark {
		out := make([]store.Mark, len(marks))
		for i, m := range marks {
			out[i] = bend(m)
		}
		return out
	}
	begin, markTx := b.begin, b.markTx
	b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
		return begin(ctx, bent(marks))
	}
	b.markTx = func(ctx context.Context, t tx, marks []store.Mark) ([]store.Status, error) {
		return markTx(ctx, t, bent(marks))
	}
}

// bendStatuses changes the statuses of every call on their way out.
func (b *bentMarks) bendStatuses(bend func(marks []store.Mark, statuses []store.Status)) {
	b.bendUnits(func(u *bentUnit, marks []store.Mark, statuses []store.Status) {
		bend(marks, statuses)
		next := u.next
		u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
			end, statuses, err := next(ctx, marks)
			if err == nil {
				bend(marks, statuses)
			}
			return end, statuses, err
		}
	})
	markTx := b.markTx
	b.markTx = func(ctx context.Context, t tx, marks []store.Mark) ([]store.Status, error) {
		statuses, err := markTx(ctx, t, marks)
		if err == nil {
			bend(marks, statuses)
		}
		return statuses, err
	}
}

// takeFor makes one status of another.
func (b *bentMarks) takeFor(from, to store.Status) {
	b.bendStatuses(func(_ []store.Mark, statuses []store.Status) {
		for i := range statuses {
			if statuses[i] == from {
				statuses[i] = to
			}
		}
	})
}

// bentLeases is a memstore in which single acts can be replaced.
type bentLeases struct {
	claim    func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error)
	extend   func(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error)
	complete func(ctx context.Context, c store.Claim, result []byte) error
	release  func(ctx context.Context, c store.Claim) error

	mu     sync.Mutex
	tokens map[store.LeaseKey]int64
}

func (b *bentLeases) Claim(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
	return b.claim(ctx, k, p)
}

func (b *bentLeases) Extend(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
	return b.extend(ctx, c, by)
}

func (b *bentLeases) Complete(ctx context.Context, c store.Claim, result []byte) error {
	return b.complete(ctx, c, result)
}

func (b *bentLeases) Release(ctx context.Context, c store.Claim) error { return b.release(ctx, c) }

func honestLeases(s *memstore.Store) *bentLeases {
	return &bentLeases{claim: s.Claim, extend: s.Extend, complete: s.Complete, release: s.Release}
}

// bentLetters is a memstore in which single acts can be replaced.
type bentLetters struct {
	s       *memstore.Store
	marks   *bentMarks
	bury    func(ctx context.Context, t tx, d store.DeadLetter) error
	list    func(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error)
	get     func(ctx context.Context, id int64) (store.DeadLetter, error)
	fail    func(ctx context.Context, id int64, reason string) error
	discard func(ctx context.Context, ids ...int64) (int, error)
	parked  func(ctx context.Context, consumer string, limit int) ([]store.ParkedKey, error)
	revive  func(ctx context.Context, id int64) (unit, store.DeadLetter, error)
}

func (b *bentLetters) BuryTx(ctx context.Context, t tx, d store.DeadLetter) error {
	return b.bury(ctx, t, d)
}

func (b *bentLetters) ListDead(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
	return b.list(ctx, f, after, limit)
}

func (b *bentLetters) GetDead(ctx context.Context, id int64) (store.DeadLetter, error) {
	return b.get(ctx, id)
}

func (b *bentLetters) DiscardDead(ctx context.Context, ids ...int64) (int, error) {
	return b.discard(ctx, ids...)
}

func (b *bentLetters) FailDead(ctx context.Context, id int64, reason string) error {
	return b.fail(ctx, id, reason)
}

func (b *bentLetters) ParkedKeys(ctx context.Context, consumer string, limit int) ([]store.ParkedKey, error) {
	return b.parked(ctx, consumer, limit)
}

func (b *bentLetters) Revive(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
	return b.revive(ctx, id)
}

func honestLetters(marks *bentMarks) *bentLetters {
	s := marks.s
	return &bentLetters{s, marks, s.BuryTx, s.ListDead, s.GetDead, s.FailDead, s.DiscardDead, s.ParkedKeys, s.Revive}
}

// bendLetters changes every letter on its way in.
func (b *bentLetters) bendLetters(bend func(d *store.DeadLetter)) {
	bury := b.bury
	b.bury = func(ctx context.Context, t tx, d store.DeadLetter) error {
		bend(&d)
		return bury(ctx, t, d)
	}
}
