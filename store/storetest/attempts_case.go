package storetest

import (
	"context"
	"crypto/rand"

	"github.com/semel-dev/semel/store"
)

// attemptsStore is a store opened by a case, with the acts that cases are made of.
type attemptsStore struct {
	*exam
	AttemptsStore
	scope store.Scope
}

func (c *attemptsCase) open(e *exam) *attemptsStore {
	e.Helper()
	s := &attemptsStore{exam: e, AttemptsStore: c.Open()}
	s.scope = s.scopeOf(examConsumer)
	return s
}

func (s *attemptsStore) scopeOf(name string) store.Scope {
	s.Helper()
	scope, err := s.AttemptsStore.Scope(s.Context(), name, store.Forever)
	s.check("Scope", err)
	return scope
}

type counted struct {
	n   int
	err error
}

func (s *attemptsStore) spends(k store.Key, want int) {
	s.Helper()
	r := within(s.exam, "Spend", func(ctx context.Context) counted {
		n, err := s.Spend(ctx, s.scope, k)
		return counted{n, err}
	})
	s.check("Spend", r.err)
	if r.n != want {
		s.failf("Spend says %d where %d is right", r.n, want)
	}
}

// starts is a start by a process that never was before.
func (s *attemptsStore) starts(k store.Key, want int) {
	s.Helper()
	if t := s.start(rand.Text(), k); t.Starts != want {
		s.failf("Start says %d where %d is right", t.Starts, want)
	}
}

func (s *attemptsStore) begins(starter string, k store.Key, want store.Tally) {
	s.Helper()
	if t := s.start(starter, k); t != want {
		s.failf("Start by %q says %+v where %+v is right", starter, t, want)
	}
}

func (s *attemptsStore) start(starter string, k store.Key) store.Tally {
	s.Helper()
	type answer struct {
		tally store.Tally
		err   error
	}
	a := within(s.exam, "Start", func(ctx context.Context) answer {
		t, err := s.Start(ctx, s.scope, k, starter)
		return answer{t, err}
	})
	s.check("Start", a.err)
	return a.tally
}

func (s *attemptsStore) survive(starter string, k store.Key) {
	s.Helper()
	s.check("Survive", within(s.exam, "Survive", func(ctx context.Context) error { return s.Survive(ctx, s.scope, k, starter) }))
}

func (s *attemptsStore) forget(k store.Key) {
	s.Helper()
	s.check("Forget", within(s.exam, "Forget", func(ctx context.Context) error { return s.Forget(ctx, s.scope, k) }))
}

func (s *attemptsStore) enters(log string, partition int, owner string, want bool) {
	s.Helper()
	type answer struct {
		orderly bool
		err     error
	}
	a := within(s.exam, "Enter", func(ctx context.Context) answer {
		orderly, err := s.Enter(ctx, s.scope, log, partition, owner)
		return answer{orderly, err}
	})
	s.check("Enter", a.err)
	if a.orderly != want {
		s.failf("Enter of %q: orderly is %v", owner, a.orderly)
	}
}

func (s *attemptsStore) leave(log string, partition int, owner string) {
	s.Helper()
	s.check("Leave", within(s.exam, "Leave", func(ctx context.Context) error { return s.Leave(ctx, s.scope, log, partition, owner) }))
}
