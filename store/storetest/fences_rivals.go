package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/semel-dev/semel/store"
)

// positionRivalRules are about two owners of a partition.
func positionRivalRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"rival on a partition",
		"A rival waits for the transaction that moves the position: the message is Seen when that one commits, New when it rolls back.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			for _, first := range []int64{0, 10} {
				m := a.at("log", 0, first)
				u := a.begin(store.New, m)
				u.effect("undone")
				rival := b.rival(m)
				b.blocked(1, rival)
				u.rollback()
				u = b.accept("Begin of the rival", b.receive(rival), []store.Status{store.New})
				u.effect("e")
				rival = a.rival(m, a.at("log", 0, first+1))
				a.blocked(1, rival)
				u.commit()
				a.accept("Begin of the rival", a.receive(rival), []store.Status{store.Seen, store.New}).commit()
				b.applied("log", 0, b.upTo("log", 0, first+1))
			}
			a.effects("undone", 0)
			a.effects("e", 2)
		},
	}, {
		"rival on another partition",
		"Partitions do not wait for each other.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			a.beginAll([]store.Mark{a.at("log", 0, 0), a.at("log", 1, 0)}, []store.Status{store.New, store.New}).commit()
			u := a.begin(store.New, a.at("log", 0, 1))
			other := b.at("log", 0, 1)
			other.Scope = b.scopeOf("another consumer")
			b.beginAll([]store.Mark{b.at("log", 1, 1), b.at("log", 2, 0), b.at("another", 0, 0), other},
				[]store.Status{store.New, store.New, store.New, store.New}).commit()
			b.applied("log", 0, b.upTo("log", 0, 0))
			u.commit()
		},
	}, {
		"partitions in opposite order",
		"Batches over the same partitions, in whatever order, do not deadlock and need no second try.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			const partitions = 8
			for round := range int64(5) {
				var marks []store.Mark
				for p := range partitions {
					marks = append(marks, a.at("log", p, round))
				}
				backwards := slices.Clone(marks)
				slices.Reverse(backwards)
				gate := b.begin(store.New, marks[partitions/2])
				var handled []<-chan handling
				for i, batch := range [][]store.Mark{marks, backwards, marks} {
					s := []*fencedStore[TTx]{a, b}[i%2]
					handled = append(handled, begun(e, func(ctx context.Context) handling { return s.handle(ctx, "", batch...) }))
				}
				c.awaitBlocked(len(handled))
				gate.rollback()
				fresh := 0
				for _, ch := range handled {
					h := within(e, "handling", func(context.Context) handling { return <-ch })
					e.check("handling", h.err)
					fresh += h.fresh
				}
				if fresh != partitions {
					e.failf("%d of %d marks were New", fresh, partitions)
				}
			}
		},
	}, {
		"a restart under way",
		"A restart waits for the transaction that moves the position: it goes on when that one rolls back, and is ErrLost when it commits.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			for p, commit := range []bool{false, true} {
				a.begin(store.New, a.at("log", p, 0)).commit()
				u := a.begin(store.New, a.at("log", p, 1))
				done := b.tryRestart("log", p, a.upTo("log", p, 0), 50)
				c.awaitBlocked(1)
				select {
				case r := <-done:
					e.failf("the restart did not wait: %+v", r)
				default:
				}
				if commit {
					u.commit()
				} else {
					u.rollback()
				}
				r := within(e, "RestartFence", func(context.Context) appliedAnswer { return <-done })
				if !commit {
					e.check("RestartFence", r.err)
					b.applied("log", p, r.at)
					continue
				}
				if !errors.Is(r.err, store.ErrLost) {
					e.failf("the position has moved, and its restart is %+v, error %v", r.at, r.err)
				}
				b.applied("log", p, b.upTo("log", p, 1))
			}
		},
	}}
}

// positionBusyRules have a short lock limit.
func positionBusyRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"rival on a partition past the lock limit",
		"A rival that moves the position for longer than the lock limit is FaultBusy, and nothing of the refused call is left open.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			u := a.begin(store.New, a.at("log", 4, 0))
			var marks []store.Mark
			for p := range 8 {
				marks = append(marks, b.at("log", p, 0))
			}
			o := within(e, "Begin", func(ctx context.Context) opened[TTx] { return b.try(ctx, marks) })
			b.busy("Begin", o.err)
			for p, m := range marks {
				if p != 4 {
					a.begin(store.New, m).rollback()
				}
			}
			u.commit()
			b.begin(store.Seen, marks[4]).rollback()
		},
	}}
}
