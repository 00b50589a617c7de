package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// positionLossRules are about servers that have lost what they had committed.
func positionLossRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"a position that has gone back",
		"A place that knows of more than the position does is refused with ErrLost, which is FaultBusy, on whichever side of the position it lies; nothing is left open and nothing has moved. One that knows of no more is judged by the position.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			a.beginAll([]store.Mark{a.at("log", 0, 3), a.at("log", 1, 3)}, []store.Status{store.New, store.New}).commit()
			for range 10 {
				for _, marks := range [][]store.Mark{
					{knowing(6, a.at("log", 0, 6))}, // of 5, and the position is 3
					{knowing(5, a.at("log", 0, 5))},
					{knowing(6, a.at("log", 0, 5))},
					{knowing(6, a.at("log", 0, 3))},
					{knowing(6, a.at("log", 0, 0))},
					{knowing(6, a.at("log", 0, 2)), a.at("log", 0, 6)},
					{a.at("log", 0, 2), knowing(6, a.at("log", 0, 6))},
					{knowing(4, a.at("log", 1, 4)), knowing(6, a.at("log", 0, 6))},
					{knowing(6, a.at("log", 0, 6)), knowing(4, a.at("log", 1, 4))},
					{knowing(1, a.at("log", 2, 1))}, // where there is no position at all
				} {
					o := within(e, "Begin", func(ctx context.Context) opened[TTx] { return a.try(ctx, marks) })
					if o.err == nil {
						a.tidyUp(o.unit)
					}
					a.lost("Begin", o.err)
				}
			}
			b.applied("log", 0, b.upTo("log", 0, 3))
			b.applied("log", 1, b.upTo("log", 1, 3))
			b.applied("log", 2, store.Applied{Offset: -1})

			u := a.begin(store.New, knowing(4, a.at("log", 1, 4)))
			u.effect("e")
			n := u.tryNext(knowing(6, a.at("log", 0, 6)))
			if n.end != store.Committed {
				e.failf("Next: end %q, error %v", n.end, n.err)
			}
			a.lost("Next", n.err)
			a.effects("e", 1)
			u.refuses(a.at("log", 2, 0))

			u = b.begin(store.Seen, knowing(4, b.at("log", 0, 2)))
			u.next(store.New, knowing(4, b.at("log", 0, 4)))
			u.next(store.New, knowing(5, b.at("log", 0, 9))) // what it commits counts
			u.commit()
			b.beginAll([]store.Mark{knowing(10, b.at("log", 0, 9)), b.at("log", 0, 10)}, []store.Status{store.Seen, store.New}).commit()
			b.applied("log", 0, b.upTo("log", 0, 10))
		},
	}}
}

// knowing makes it the mark of somebody who has seen everything before offset committed.
func knowing(offset int64, m store.Mark) store.Mark {
	m.Place.Known = offset
	return m
}
