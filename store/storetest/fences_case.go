package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// fencedStore is a store with positions opened by a case.
type fencedStore[TTx any] struct {
	*marksStore[TTx]
	fences store.Fences
}

func (c *marksCase[TTx]) openFenced(e *exam) *fencedStore[TTx] {
	e.Helper()
	s := c.open(e)
	fences, ok := s.Marks.(store.Fences)
	if !ok {
		e.failf("the store does not implement Fences")
	}
	return &fencedStore[TTx]{s, fences}
}

// at is a mark of the first epoch. Its key and its record follow from its place.
func (s *fencedStore[TTx]) at(log string, partition int, offset int64) store.Mark {
	return s.atEpoch(0, log, partition, offset)
}

func (s *fencedStore[TTx]) atEpoch(epoch int64, log string, partition int, offset int64) store.Mark {
	m := s.mark(fmt.Sprintf("%q/%d/%d/%d", log, partition, offset, epoch))
	m.Place = &store.Place{Log: log, Partition: partition, Offset: offset, Record: recordAt(log, partition, offset), Epoch: epoch}
	return m
}

func recordAt(log string, partition int, offset int64) store.ID {
	return store.OrderID(fmt.Appendf(nil, "record %q/%d/%d", log, partition, offset))
}

// upTo is the position in the first epoch after the message at offset.
func (s *fencedStore[TTx]) upTo(log string, partition int, offset int64) store.Applied {
	return store.Applied{Offset: offset, Record: recordAt(log, partition, offset)}
}

type appliedAnswer struct {
	at  store.Applied
	err error
}

// applied compares a position.
func (s *fencedStore[TTx]) applied(log string, partition int, want store.Applied) {
	s.Helper()
	a := within(s.exam, "Applied", func(ctx context.Context) appliedAnswer {
		at, err := s.fences.Applied(ctx, s.scope, log, partition)
		return appliedAnswer{at, err}
	})
	s.check("Applied", a.err)
	if a.at != want {
		s.failf("the position of %q/%d is %+v where %+v is right", log, partition, a.at, want)
	}
}

func (s *fencedStore[TTx]) tryRestart(log string, partition int, expected store.Applied, offset int64) <-chan appliedAnswer {
	return begun(s.exam, func(ctx context.Context) appliedAnswer {
		at, err := s.fences.RestartFence(ctx, s.scope, log, partition, expected, offset)
		return appliedAnswer{at, err}
	})
}

// restart begins a new epoch, which must be the one after the expected.
func (s *fencedStore[TTx]) restart(log string, partition int, expected store.Applied, offset int64) store.Applied {
	s.Helper()
	a := within(s.exam, "RestartFence", func(context.Context) appliedAnswer { return <-s.tryRestart(log, partition, expected, offset) })
	s.check("RestartFence", a.err)
	if a.at.Offset != offset || a.at.Epoch <= expected.Epoch || !a.at.Record.IsZero() {
		s.failf("RestartFence at %d is %+v after %+v", offset, a.at, expected)
	}
	s.applied(log, partition, a.at)
	return a.at
}

func (s *fencedStore[TTx]) notRestarted(log string, partition int, expected store.Applied) {
	s.Helper()
	a := within(s.exam, "RestartFence", func(context.Context) appliedAnswer { return <-s.tryRestart(log, partition, expected, 3) })
	if !errors.Is(a.err, store.ErrLost) {
		s.failf("RestartFence of a position expected at %+v: %+v, error %v", expected, a.at, a.err)
	}
}

// lost checks the error of a call with a place of another epoch.
func (s *fencedStore[TTx]) lost(act string, err error) {
	s.Helper()
	s.busy(act, err)
	if !errors.Is(err, store.ErrLost) {
		s.failf("%s: the error %q is not ErrLost", act, err)
	}
}
