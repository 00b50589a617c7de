package storetest_test

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
	"github.com/semel-dev/semel/store/storetest"
)

// bentFences is a view of a memstore in which single acts can be replaced.
type bentFences struct {
	*bentMarks
	store.DeadLetters
	view    memstore.Fenced
	applied func(ctx context.Context, scope store.Scope, log string, partition int) (store.Applied, error)
	restart func(ctx context.Context, scope store.Scope, log string, partition int, expected store.Applied, offset int64) (store.Applied, error)
	bury    func(ctx context.Context, t tx, d store.DeadLetter) error
	revive  func(ctx context.Context, id int64) (unit, store.DeadLetter, error)
}

func (b *bentFences) Keyless() bool { return b.view.Keyless() }

func (b *bentFences) Revive(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
	return b.revive(ctx, id)
}

func (b *bentFences) Applied(ctx context.Context, scope store.Scope, log string, partition int) (store.Applied, error) {
	return b.applied(ctx, scope, log, partition)
}

func (b *bentFences) RestartFence(ctx context.Context, scope store.Scope, log string, partition int, expected store.Applied, offset int64) (store.Applied, error) {
	return b.restart(ctx, scope, log, partition, expected, offset)
}

func (b *bentFences) BuryTx(ctx context.Context, t tx, d store.DeadLetter) error {
	return b.bury(ctx, t, d)
}

func honestFences(s *memstore.Store, keys bool) (marksPlace, *bentFences) {
	p, marks := honestMarks(s)
	b := &bentFences{bentMarks: marks, DeadLetters: s, bury: s.BuryTx}
	b.look(s.Fenced())
	if keys {
		b.look(s.FencedMarks())
	}
	p.Open = func() store.Marks[tx] { return b }
	return p, b
}

// look makes the liar a liar about that view.
func (b *bentFences) look(view memstore.Fenced) {
	b.view, b.begin, b.markTx, b.revive = view, view.Begin, view.MarkTx, view.Revive
	b.applied, b.restart = view.Applied, view.RestartFence
}

// bendPlaces changes the place of every mark on its way in.
func (b *bentFences) bendPlaces(bend func(m *store.Mark, p *store.Place)) {
	b.bendMarks(func(m store.Mark) store.Mark {
		place := *m.Place
		bend(&m, &place)
		m.Place = &place
		return m
	})
}

// bentAttempts is a memstore in which single acts can be replaced.
type bentAttempts struct {
	*memstore.Store
	spend   func(ctx context.Context, scope store.Scope, key store.Key) (int, error)
	start   func(ctx context.Context, scope store.Scope, key store.Key, starter string) (store.Tally, error)
	survive func(ctx context.Context, scope store.Scope, key store.Key, starter string) error
	forget  func(ctx context.Context, scope store.Scope, key store.Key) error
	enter   func(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error)
	leave   func(ctx context.Context, scope store.Scope, log string, partition int, owner string) error
}

func (b *bentAttempts) Spend(ctx context.Context, scope store.Scope, key store.Key) (int, error) {
	return b.spend(ctx, scope, key)
}

func (b *bentAttempts) Start(ctx context.Context, scope store.Scope, key store.Key, starter string) (store.Tally, error) {
	return b.start(ctx, scope, key, starter)
}

func (b *bentAttempts) Survive(ctx context.Context, scope store.Scope, key store.Key, starter string) error {
	return b.survive(ctx, scope, key, starter)
}

func (b *bentAttempts) Forget(ctx context.Context, scope store.Scope, key store.Key) error {
	return b.forget(ctx, scope, key)
}

func (b *bentAttempts) Enter(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error) {
	return b.enter(ctx, scope, log, partition, owner)
}

func (b *bentAttempts) Leave(ctx context.Context, scope store.Scope, log string, partition int, owner string) error {
	return b.leave(ctx, scope, log, partition, owner)
}

func honestAttempts(s *memstore.Store) *bentAttempts {
	return &bentAttempts{s, s.Spend, s.Start, s.Survive, s.Forget, s.Enter, s.Leave}
}

type agesPlace = storetest.RetentionPlace[tx]

// bentAges is a memstore in which single acts can be replaced.
type bentAges struct {
	*bentMarks
	reached func(ctx context.Context, scope store.Scope, partitions []store.Reach) error
}

func (b *bentAges) Reached(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
	return b.reached(ctx, scope, partitions)
}

func honestAges(s *memstore.Store) (agesPlace, *bentAges) {
	p, marks := honestMarks(s)
	b := &bentAges{marks, s.Reached}
	p.Open = func() store.Marks[tx] { return b }
	return agesPlace{MarksPlace: p, Purge: func(ctx context.Context) error {
		_, err := s.Purge(ctx)
		return err
	}}, b
}

// bendReaches changes what is said to be reached on its way in.
func (b *bentAges) bendReaches(bend func(r *store.Reach, now time.Time)) {
	reached := b.reached
	b.reached = func(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
		var bent []store.Reach
		for _, r := range partitions {
			bend(&r, time.Now())
			bent = append(bent, r)
		}
		return reached(ctx, scope, bent)
	}
}
