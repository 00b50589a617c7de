package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// epoch is a time like those of messages: long past, to the millisecond.
var epoch = time.Date(2024, 2, 29, 23, 59, 59, 999e6, time.UTC)

const examConsumer = "the consumer of the exam"

// marksCase is the place of one case.
type marksCase[TTx any] struct{ MarksPlace[TTx] }

// marksStore is a store opened by a case, with the acts that cases are made of.
type marksStore[TTx any] struct {
	*exam
	*marksCase[TTx]
	store.Marks[TTx]
	scope store.Scope
}

func (c *marksCase[TTx]) open(e *exam) *marksStore[TTx] {
	e.Helper()
	s := &marksStore[TTx]{exam: e, marksCase: c, Marks: c.Open()}
	s.scope = s.scopeOf(examConsumer)
	return s
}

func (s *marksStore[TTx]) scopeOf(name string) store.Scope {
	s.Helper()
	type answer struct {
		store.Scope
		error
	}
	a := within(s.exam, "Scope", func(ctx context.Context) answer {
		id, err := s.Marks.Scope(ctx, name, store.Forever)
		return answer{id, err}
	})
	s.check(fmt.Sprintf("Scope(%q)", name), a.error)
	return a.Scope
}

// mark is one without a time in its key.
func (s *marksStore[TTx]) mark(name ...any) store.Mark {
	return store.Mark{Scope: s.scope, Key: store.DigestKey(fmt.Append(nil, name...)), Time: epoch}
}

// timed is one with a time in its key.
func (s *marksStore[TTx]) timed(at time.Time, name ...any) store.Mark {
	return store.Mark{Scope: s.scope, Key: store.TimedKey(at, fmt.Append(nil, name...)), Time: at}
}

// opened is the answer to a Begin.
type opened[TTx any] struct {
	unit     store.Unit[TTx]
	statuses []store.Status
	err      error
}

func (s *marksStore[TTx]) try(ctx context.Context, marks []store.Mark) opened[TTx] {
	u, statuses, err := s.Marks.Begin(ctx, slices.Clone(marks))
	return opened[TTx]{u, statuses, err}
}

// rival starts a Begin beside the case.
func (s *marksStore[TTx]) rival(marks ...store.Mark) <-chan opened[TTx] {
	return begun(s.exam, func(ctx context.Context) opened[TTx] { return s.try(ctx, marks) })
}

// begin opens a transaction with one mark, which must have the status.
func (s *marksStore[TTx]) begin(want store.Status, m store.Mark) *marksUnit[TTx] {
	s.Helper()
	return s.beginAll([]store.Mark{m}, []store.Status{want})
}

func (s *marksStore[TTx]) beginAll(marks []store.Mark, want []store.Status) *marksUnit[TTx] {
	s.Helper()
	o := within(s.exam, "Begin", func(ctx context.Context) opened[TTx] { return s.try(ctx, marks) })
	return s.accept("Begin", o, want)
}

// accept checks the answer to a Begin that had to succeed.
func (s *marksStore[TTx]) accept(act string, o opened[TTx], want []store.Status) *marksUnit[TTx] {
	s.Helper()
	s.check(act, o.err)
	if o.unit == nil {
		s.failf("%s: neither a unit nor an error", act)
	}
	s.tidyUp(o.unit)
	s.compare(act, o.statuses, want)
	return &marksUnit[TTx]{s, o.unit}
}

// tidyUp gives the connection back when a case ends in the middle.
func (s *marksStore[TTx]) tidyUp(u store.Unit[TTx]) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// Most units have ended by now. Those that cannot be rolled back have failed the
		// case already.
		_ = u.Rollback(ctx)
	})
}

func (s *marksStore[TTx]) compare(act string, got, want []store.Status) {
	s.Helper()
	if len(got) != len(want) {
		s.failf("%s: %d statuses for %d marks", act, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			s.failf("%s: mark %d of %d is %q where %q is right", act, i+1, len(want), got[i], want[i])
		}
	}
}

// receive waits for a rival's answer.
func (s *marksStore[TTx]) receive(rival <-chan opened[TTx]) opened[TTx] {
	s.Helper()
	select {
	case o := <-rival:
		return o
	case <-time.After(2 * patience):
		s.failf("the rival is still waiting")
		panic("unreachable")
	}
}

// blocked returns when n rivals are waiting, and ends the case when this one is not.
func (s *marksStore[TTx]) blocked(n int, rival <-chan opened[TTx]) {
	s.Helper()
	s.awaitBlocked(n)
	select {
	case o := <-rival:
		if o.unit != nil {
			s.tidyUp(o.unit)
		}
		s.failf("the rival did not wait: statuses %v, error %v", o.statuses, o.err)
	default:
	}
}

func (c *marksCase[TTx]) awaitBlocked(n int) {
	if c.AwaitBlocked != nil {
		c.AwaitBlocked(n)
		return
	}
	time.Sleep(grace)
}

// busy checks the error of a call that gave up waiting.
func (s *marksStore[TTx]) busy(act string, err error) {
	s.Helper()
	s.fault(act, err, store.FaultBusy)
}

func (s *marksStore[TTx]) fault(act string, err error, want store.Fault) {
	s.Helper()
	if err == nil {
		s.failf("%s: no error where one with fault %q is right", act, want)
	}
	if got := s.Marks.Fault(err); got != want {
		s.failf("%s: the error %q has fault %q where %q is right", act, err, got, want)
	}
	if got := s.Marks.Fault(fmt.Errorf("wrapped: %w", err)); got != want {
		s.failf("%s: the error %q has fault %q once it is wrapped, where %q is right", act, err, got, want)
	}
}

// effects compares the number of committed effects under a name.
func (s *marksStore[TTx]) effects(name string, want int) {
	s.Helper()
	if got := s.Effects(name); got != want {
		s.failf("%d committed effects where %d is right", got, want)
	}
}

// marksUnit is an open unit, with the acts that cases are made of.
type marksUnit[TTx any] struct {
	*marksStore[TTx]
	store.Unit[TTx]
}

func (u *marksUnit[TTx]) effect(name string) {
	u.Helper()
	tx := u.Unit.Tx()
	u.check("effect", within(u.exam, "effect", func(ctx context.Context) error {
		return u.Effect(ctx, tx, name)
	}))
}

// closed is the answer to a Commit or a Next.
type closed struct {
	end      store.End
	statuses []store.Status
	err      error
}

func (u *marksUnit[TTx]) tryCommit() closed {
	u.Helper()
	return within(u.exam, "Commit", func(ctx context.Context) closed {
		end, err := u.Unit.Commit(ctx)
		return closed{end: end, err: err}
	})
}

func (u *marksUnit[TTx]) commit() {
	u.Helper()
	if c := u.tryCommit(); c.end != store.Committed || c.err != nil {
		u.failf("Commit: end %q, error %v", c.end, c.err)
	}
}

func (u *marksUnit[TTx]) tryNext(marks ...store.Mark) closed {
	u.Helper()
	return within(u.exam, "Next", func(ctx context.Context) closed {
		end, statuses, err := u.Unit.Next(ctx, marks)
		return closed{end, statuses, err}
	})
}

func (u *marksUnit[TTx]) next(want store.Status, m store.Mark) {
	u.Helper()
	c := u.tryNext(m)
	if c.end != store.Committed || c.err != nil {
		u.failf("Next: end %q, error %v", c.end, c.err)
	}
	u.compare("Next", c.statuses, []store.Status{want})
}

func (u *marksUnit[TTx]) rollback() {
	u.Helper()
	u.check("Rollback", within(u.exam, "Rollback", u.Unit.Rollback))
}

// refuses checks that an ended unit stays ended.
func (u *marksUnit[TTx]) refuses(free store.Mark) {
	u.Helper()
	if c := u.tryCommit(); !errors.Is(c.err, store.ErrEnded) || c.end == store.Committed {
		u.failf("Commit of an ended unit: end %q, error %v", c.end, c.err)
	}
	if c := u.tryNext(free); !errors.Is(c.err, store.ErrEnded) || c.end == store.Committed {
		u.failf("Next of an ended unit: end %q, error %v", c.end, c.err)
	}
	u.rollback()
	u.rollback()
	u.begin(store.New, free).rollback()
}
