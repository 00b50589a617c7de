package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// restartRules are about logs that were made again.
func restartRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"a restart",
		"After a restart everything up to its offset counts as applied and nothing after it, in a new epoch and without a record.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			a.begin(store.New, a.at("log", 0, 100)).commit()
			at := b.restart("log", 0, a.upTo("log", 0, 100), 9)
			a.beginAll([]store.Mark{a.atEpoch(at.Epoch, "log", 0, 9), a.atEpoch(at.Epoch, "log", 0, 10)}, []store.Status{store.Seen, store.New}).commit()
			at = store.Applied{Offset: 10, Record: recordAt("log", 0, 10), Epoch: at.Epoch}
			b.applied("log", 0, at)
			at = a.restart("log", 0, at, -1)
			b.begin(store.New, b.atEpoch(at.Epoch, "log", 0, 0)).commit()
			b.applied("log", 0, store.Applied{Record: recordAt("log", 0, 0), Epoch: at.Epoch})

			// A log may be met in the middle.
			at = a.restart("another log", 0, store.Applied{Offset: -1}, 41)
			a.beginAll([]store.Mark{a.atEpoch(at.Epoch, "another log", 0, 41), a.atEpoch(at.Epoch, "another log", 0, 42)}, []store.Status{store.Seen, store.New}).commit()
			a.applied("log", 1, store.Applied{Offset: -1})
		},
	}, {
		"a restart from elsewhere",
		"A restart of a position that is not the expected one any more is ErrLost and changes nothing.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			s.notRestarted("log", 0, store.Applied{Offset: 5})
			s.notRestarted("log", 0, store.Applied{Offset: -1, Epoch: 1})
			s.applied("log", 0, store.Applied{Offset: -1})
			s.begin(store.New, s.at("log", 0, 5)).commit()
			for _, expected := range []store.Applied{{Offset: -1}, {Offset: 4}, {Offset: 6}, {Offset: 5, Record: recordAt("log", 0, 5), Epoch: 1}} {
				s.notRestarted("log", 0, expected)
			}
			s.applied("log", 0, s.upTo("log", 0, 5))
			at := s.restart("log", 0, s.upTo("log", 0, 5), 5)
			s.notRestarted("log", 0, s.upTo("log", 0, 5))
			s.applied("log", 0, at)
		},
	}, {
		"one of two restarts",
		"Of two owners that restart a position at once one does, and the other is ErrLost.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			for _, log := range []string{"met for the first time", "log"} {
				from := store.Applied{Offset: -1}
				if log == "log" {
					a.begin(store.New, a.at(log, 0, 7)).commit()
					from = a.upTo(log, 0, 7)
				}
				one, two := a.tryRestart(log, 0, from, 1), b.tryRestart(log, 0, from, 2)
				first := within(e, "RestartFence", func(context.Context) appliedAnswer { return <-one })
				second := within(e, "RestartFence", func(context.Context) appliedAnswer { return <-two })
				if (first.err == nil) == (second.err == nil) {
					e.failf("%+v and %+v", first, second)
				}
				if first.err != nil {
					first, second = second, first
				}
				a.applied(log, 0, first.at)
			}
		},
	}, {
		"a place of another epoch",
		"A place with another epoch than the position's is refused with ErrLost, which is FaultBusy; nothing is left open and nothing has moved.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			a.begin(store.New, a.at("log", 0, 100)).commit()
			at := b.restart("log", 0, a.upTo("log", 0, 100), 9)
			for range 10 {
				for _, marks := range [][]store.Mark{
					{a.at("log", 0, 101)},
					{a.at("log", 0, 9)},
					{a.at("log", 1, 0), a.at("log", 0, 101)},
					{a.atEpoch(at.Epoch+1, "log", 0, 101)},
				} {
					o := within(e, "Begin", func(ctx context.Context) opened[TTx] { return a.try(ctx, marks) })
					a.lost("Begin", o.err)
				}
			}
			b.applied("log", 0, at)
			b.applied("log", 1, store.Applied{Offset: -1})

			u := a.begin(store.New, a.at("log", 1, 0))
			u.effect("e")
			n := u.tryNext(a.at("log", 0, 101))
			if n.end != store.Committed {
				e.failf("Next: end %q, error %v", n.end, n.err)
			}
			a.lost("Next", n.err)
			a.effects("e", 1)
			u.refuses(a.at("log", 2, 0))
			b.begin(store.New, b.atEpoch(at.Epoch, "log", 0, 10)).commit()
		},
	}}
}
