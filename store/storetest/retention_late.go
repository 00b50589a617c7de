package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// lateRules are about messages that come after marks of their time were removed.
func lateRules[TTx any]() []agesRule[TTx] {
	// purged is a store that has removed what is older than 31 days.
	purged := func(e *exam, c *agesCase[TTx]) *agesStore[TTx] {
		s := c.openAges(e, kept)
		s.reached(0, day)
		s.purge()
		return s
	}
	return []agesRule[TTx]{{
		"late and not new",
		"A message of a time of which marks have been removed is Late, done or not, and its mark is not set. It goes by the time of the key where that has one, otherwise by the message's.",
		func(e *exam, c *agesCase[TTx]) {
			s := purged(e, c)
			never := s.pair(200*day, "never seen")
			s.are(store.Late, never...)
			s.are(store.Late, never...)
			misdated := s.timed(s.now.Add(-200*day), "m")
			misdated.Time = s.now
			s.are(store.Late, misdated)
			misdated = s.timed(s.now, "n")
			misdated.Time = s.now.Add(-200 * day)
			s.are(store.New, misdated)
			s.are(store.New, s.pair(20*day, "young")...)
		},
	}, {
		"late beside others",
		"In a batch, and behind Next, the late ones are Late and the others are what they would be without them; what is done with the transaction is committed.",
		func(e *exam, c *agesCase[TTx]) {
			s := purged(e, c)
			seen := s.pair(20*day, "seen")
			s.are(store.New, seen...)
			u := s.begin(store.New, s.pair(20*day, "before")[0])
			for _, n := range []int{1, 100} {
				var marks []store.Mark
				var want []store.Status
				for i := range n {
					marks = append(marks, s.pair(200*day, "late", n, i)...)
					want = append(want, store.Late, store.Late)
					marks = append(marks, s.pair(20*day, "new", n, i)...)
					want = append(want, store.New, store.New)
					marks, want = append(marks, seen...), append(want, store.Seen, store.Seen)
				}
				marks, want = append(marks, marks[0], marks[2]), append(want, store.Late, store.Seen)
				u.effect("e")
				got := u.tryNext(marks...)
				if got.end != store.Committed || got.err != nil {
					e.failf("Next: end %q, error %v", got.end, got.err)
				}
				s.compare("Next", got.statuses, want)
				u.effect("e")
				u.next(store.Late, s.pair(300*day, "alone", n)[0])
				u.next(store.Late, s.pair(300*day, "alone", n)[1])
				for i := range want {
					if want[i] == store.New {
						want[i] = store.Seen
					}
				}
				s.beginAll(marks, want).rollback()
			}
			u.commit()
			s.effects("e", 4)
		},
	}, {
		"never late without a time",
		"A mark without any time is never Late, and neither is one of another consumer.",
		func(e *exam, c *agesCase[TTx]) {
			s := purged(e, c)
			var marks []store.Mark
			for i := range 5 {
				m := s.mark("without a time", i)
				m.Time = time.Time{}
				marks = append(marks, m)
			}
			s.are(store.New, marks...)
			s.purge()
			s.are(store.Seen, marks...)
			mixed := []store.Mark{s.pair(200*day, "late")[1], s.mark("n")}
			mixed[1].Time = time.Time{}
			s.beginAll(mixed, []store.Status{store.Late, store.New}).rollback()
			others := s.pair(200*day, "m")
			for i := range others {
				others[i].Scope = s.keeps("another consumer", kept)
			}
			s.are(store.New, others...)
		},
	}, {
		"late with a fingerprint or an ordering key",
		"A late message is Late whatever fingerprint it has; one whose mark is still there is Seen or Mismatched.",
		func(e *exam, c *agesCase[TTx]) {
			s := purged(e, c)
			late, young := s.pair(200*day, "late"), s.pair(20*day, "young")
			for i := range late {
				late[i], young[i] = printed(late[i], "one"), printed(young[i], "one")
				late[i].Order = store.OrderID([]byte("x"))
			}
			s.are(store.New, young...)
			s.are(store.Late, late...)
			s.beginAll([]store.Mark{printed(young[0], "two"), late[0], printed(young[1], "two"), late[1]},
				[]store.Status{store.Mismatched, store.Late, store.Mismatched, store.Late}).commit()
		},
	}, {
		"a purge beside a handler",
		"A mark that was set before a purge and committed after it is never New again.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			old := s.pair(200*day, "m")
			u := s.beginAll(old, []store.Status{store.New, store.New})
			s.reached(0, day)
			done := begun(e, s.c.purgeAll)
			s.pause(func() bool { return len(done) > 0 })
			u.commit()
			s.check("Purge", within(e, "Purge", func(context.Context) error { return <-done }))
			for range 2 {
				for _, m := range old {
					o := within(e, "Begin", func(ctx context.Context) opened[TTx] { return s.try(ctx, []store.Mark{m}) })
					s.check("Begin", o.err)
					s.tidyUp(o.unit)
					if o.statuses[0] != store.Seen && o.statuses[0] != store.Late {
						e.failf("the mark is %q", o.statuses[0])
					}
					s.check("Rollback", within(e, "Rollback", o.unit.Rollback))
				}
				s.purge()
			}
		},
	}}
}

// txLateRules are about late messages in a transaction that the store did not begin.
func txLateRules[TTx any]() []agesRule[TTx] {
	return []agesRule[TTx]{{
		"TxMarker knows late messages",
		"MarkTx says Late as Begin does, and spoils nothing by it.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			s.reached(0, day)
			s.purge()
			late, young := s.pair(200*day, "late"), s.pair(20*day, "young")
			e.check("MarkTx", s.inTx(func(ctx context.Context, tx TTx) error {
				return errors.Join(
					s.markTx(ctx, tx, late[:1], []store.Status{store.Late}),
					s.markTx(ctx, tx, late[1:], []store.Status{store.Late}),
					s.markTx(ctx, tx, slices.Concat(late, young, late), []store.Status{store.Late, store.Late, store.New, store.New, store.Late, store.Late}),
					c.Effect(ctx, tx, "e"),
				)
			}))
			s.effects("e", 1)
			s.are(store.Seen, young...)
		},
	}}
}
