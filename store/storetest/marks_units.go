package storetest

import (
	"context"
	"errors"

	"github.com/semel-dev/semel/store"
)

// unitRules are about the ends of a unit.
func unitRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"next commits and marks",
		"Next commits the transaction that was open and sets the marks of the next one.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			u.effect("first")
			u.next(store.New, a.mark("n"))
			a.effects("first", 1)
			b.begin(store.Seen, b.mark("m")).rollback()
			u.effect("second")
			a.effects("second", 0)
			u.next(store.Seen, a.mark("m"))
			a.effects("second", 1)
			u.effect("third")
			u.rollback()
			a.effects("third", 0)
			b.begin(store.Seen, b.mark("n")).rollback()
		},
	}, {
		"rollback after next",
		"A rollback undoes the transaction that Next began and nothing before it.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			u.effect("first")
			u.next(store.New, s.mark("n"))
			u.effect("second")
			u.rollback()
			s.effects("first", 1)
			s.effects("second", 0)
			s.beginAll([]store.Mark{s.mark("m"), s.mark("n")}, []store.Status{store.Seen, store.New}).rollback()
		},
	}, {
		"next after seen",
		"Next goes on from a transaction whose marks were all Seen.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			s.begin(store.New, s.mark("m")).commit()
			u := s.begin(store.Seen, s.mark("m"))
			u.next(store.Seen, s.mark("m"))
			u.next(store.New, s.mark("n"))
			u.effect("e")
			u.next(store.Seen, s.mark("n"))
			u.commit()
			s.effects("e", 1)
		},
	}, {
		"ended units refuse",
		"A unit that has ended answers ErrEnded to Commit and Next, and nil to Rollback, however often.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("committed"))
			u.commit()
			u.refuses(s.mark("free"))
			s.begin(store.Seen, s.mark("committed")).rollback()

			u = s.begin(store.New, s.mark("rolled back"))
			u.rollback()
			u.refuses(s.mark("free"))
			s.begin(store.New, s.mark("rolled back")).rollback()
		},
	}, {
		"a transaction outlived",
		"What a handler does with its transaction after the end changes nothing, least of all the next transaction.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			former := u.Tx()
			u.next(store.New, s.mark("n"))
			// An error is welcome, but a TTx that only queues cannot give one.
			_ = within(e, "effect", func(ctx context.Context) error { return c.Effect(ctx, former, "late") })
			u.effect("e")
			u.commit()
			s.effects("e", 1)
			s.effects("late", 0)
		},
	}, {
		"a swallowed error",
		"A transaction in which a statement failed is not committed, though the handler has swallowed the error: the end is RolledBack and there is an error.",
		func(e *exam, c *marksCase[TTx]) {
			if c.Spoil == nil {
				e.Skip("the harness has no Spoil: TTx cannot fail before the commit")
			}
			spoil := func(u *marksUnit[TTx]) {
				tx := u.Tx()
				u.effect("e")
				within(e, "spoil", func(ctx context.Context) struct{} {
					c.Spoil(ctx, tx)
					return struct{}{}
				})
			}
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			spoil(u)
			if end := u.tryCommit(); end.end != store.RolledBack || end.err == nil {
				e.failf("Commit: end %q, error %v", end.end, end.err)
			}
			u.refuses(s.mark("free"))
			s.effects("e", 0)

			u = s.begin(store.New, s.mark("m"))
			spoil(u)
			if end := u.tryNext(s.mark("n")); end.end != store.RolledBack || end.err == nil {
				e.failf("Next: end %q, error %v", end.end, end.err)
			}
			u.refuses(s.mark("free"))
			s.effects("e", 0)
			s.beginAll([]store.Mark{s.mark("m"), s.mark("n")}, []store.Status{store.New, store.New}).rollback()
		},
	}, {
		"fault of a handler",
		"An error of the handler's own is the handler's fault.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			u.effect("e")
			if f := u.Unit.Fault(errors.New("card declined")); f != store.FaultHandler {
				e.failf("fault %q", f)
			}
			u.rollback()
		},
	}}
}

// contextRules are about callers that give up.
func contextRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"commit under an ended context",
		"A Commit or Next whose context has ended before it is a rollback: nothing is stored and the unit has ended.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			u.effect("e")
			end := within(e, "Commit", func(context.Context) closed {
				end, err := u.Unit.Commit(ended())
				return closed{end: end, err: err}
			})
			if end.end != store.RolledBack || end.err == nil {
				e.failf("Commit: end %q, error %v", end.end, end.err)
			}
			s.fault("Commit", end.err, store.FaultCanceled)
			u.refuses(s.mark("free"))

			u = s.begin(store.New, s.mark("m"))
			u.effect("e")
			end = within(e, "Next", func(context.Context) closed {
				end, statuses, err := u.Unit.Next(ended(), []store.Mark{s.mark("n")})
				return closed{end, statuses, err}
			})
			if end.end != store.RolledBack || end.err == nil {
				e.failf("Next: end %q, error %v", end.end, end.err)
			}
			u.refuses(s.mark("free"))
			s.effects("e", 0)
			s.beginAll([]store.Mark{s.mark("m"), s.mark("n")}, []store.Status{store.New, store.New}).rollback()
		},
	}, {
		"rollback under an ended context",
		"A Rollback undoes the transaction and frees its marks, also when its context has ended.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			u.effect("e")
			// It may report what it could not tell the server, but it must not leave a
			// transaction behind.
			_ = within(e, "Rollback", func(context.Context) error { return u.Unit.Rollback(ended()) })
			b.begin(store.New, b.mark("m")).rollback()
			b.effects("e", 0)
			u.refuses(a.mark("free"))
		},
	}, {
		"begin under an ended context",
		"A Begin whose context has ended is FaultCanceled and leaves nothing open.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			o := within(e, "Begin", func(context.Context) opened[TTx] {
				return s.try(ended(), []store.Mark{s.mark("m")})
			})
			s.fault("Begin", o.err, store.FaultCanceled)
			s.begin(store.New, s.mark("m")).rollback()
		},
	}, {
		"a rival gives up",
		"A rival stops waiting when its context ends; that is FaultCanceled and leaves nothing open.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("held"))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			marks := []store.Mark{b.mark("held"), b.mark("free"), b.mark("also free"), b.timed(epoch, "free")}
			rival := begun(e, func(context.Context) opened[TTx] { return b.try(ctx, marks) })
			b.blocked(1, rival)
			cancel()
			b.fault("Begin of the rival", b.receive(rival).err, store.FaultCanceled)
			a.beginAll(marks[1:], []store.Status{store.New, store.New, store.New}).rollback()
			u.commit()
			b.begin(store.Seen, b.mark("held")).rollback()
		},
	}}
}
