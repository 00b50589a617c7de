package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// reviveRivalRules are about revivals and what happens beside them.
func reviveRivalRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"a message waits for a revival",
		"A message whose ordering key is being revived waits for the end: it is New when that has released the key, Blocked when not.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for i, end := range []struct {
				behind bool
				commit bool
				want   store.Status
			}{{false, true, store.New}, {false, false, store.Blocked}, {true, true, store.Blocked}, {true, false, store.Blocked}} {
				order := string(rune('a' + i))
				head := c.buried(c.queued("head", order, store.Dead))
				if end.behind {
					c.buried(c.queued("behind", order, store.Waiting))
				}
				u := c.revive(head)
				rival := c.marks.rival(c.ordered("n", order))
				c.marks.blocked(1, rival)
				if end.commit {
					u.commit()
				} else {
					u.rollback()
				}
				c.marks.accept("Begin of the message", c.marks.receive(rival), []store.Status{end.want}).commit()
			}
			c.begun(store.New, c.ordered("of another key", "z")).rollback()
		},
	}, {
		"a message behind the last letter",
		"No letter ever waits behind a key that is not parked: a message that goes behind the last letter while that one is revived keeps the key parked.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for i, commit := range []bool{true, false} {
				order := string(rune('a' + i))
				head := c.buried(c.queued("head", order, store.Dead))
				m := c.begun(store.Blocked, c.ordered("n", order))
				rival := c.tryRevive(head.ID)
				c.waits(1, rival)
				c.bury(m, c.queued("n", order, store.Waiting))
				want := store.Blocked
				if commit {
					m.commit()
				} else {
					m.rollback()
					want = store.New
				}
				c.accept(c.receive(rival), head).commit()
				c.begun(want, c.ordered("o", order)).rollback()
			}
			c.listed("", 0, 10, "n")
		},
	}, {
		"a death beside a revival",
		"A message that dies while the last letter of its ordering key is revived keeps the key parked.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			// It began before its key was parked.
			m := c.begun(store.New, c.ordered("n", "x"))
			head := c.buried(c.queued("head", "x", store.Dead))
			c.bury(m, c.queued("n", "x", store.Dead))
			rival := c.tryRevive(head.ID)
			c.pause(func() bool { return len(rival) > 0 })
			// Either may have to wait for the other.
			died := begun(e, func(ctx context.Context) error {
				_, err := m.Unit.Commit(ctx)
				return err
			})
			c.accept(c.receive(rival), head).commit()
			c.check("Commit of the dead message", within(e, "Commit", func(context.Context) error { return <-died }))
			c.listed("", 0, 10, "n")
			c.begun(store.Blocked, c.ordered("o", "x")).rollback()
		},
	}, {
		"a death behind a revival",
		"A message that dies after the last letter of its ordering key was revived, and before that is committed, keeps the key parked.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			m := c.begun(store.New, c.ordered("n", "x"))
			head := c.buried(c.queued("head", "x", store.Dead))
			u := c.revive(head)
			tx := m.Tx()
			done := begun(e, func(ctx context.Context) error {
				if err := c.Burier.BuryTx(ctx, tx, c.queued("n", "x", store.Dead)); err != nil {
					return err
				}
				_, err := m.Unit.Commit(ctx)
				return err
			})
			c.pause(func() bool { return len(done) > 0 })
			u.commit()
			c.check("burial", within(e, "burial", func(context.Context) error { return <-done }))
			c.listed("", 0, 10, "n")
			c.begun(store.Blocked, c.ordered("o", "x")).rollback()
		},
	}, {
		"two revivals of a letter",
		"Of two revivals of one letter the second waits: after a commit it is ErrNotFound, after a rollback it has the letter.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for _, d := range []store.DeadLetter{c.letter("m"), c.queued("m", "x", store.Dead)} {
				d := c.buried(d)
				u := c.revive(d)
				rival := c.tryRevive(d.ID)
				c.waits(1, rival)
				u.rollback()
				u = c.accept(c.receive(rival), d)
				rival = c.tryRevive(d.ID)
				c.waits(1, rival)
				u.commit()
				c.refusal(c.receive(rival), store.ErrNotFound, d.ID)
			}
		},
	}, {
		"revivals of two letters of a key",
		"A revival waits for that of an earlier letter of its ordering key: after a commit it goes on, after a rollback it is ErrBehind.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			head, next := c.buried(c.queued("head", "x", store.Dead)), c.buried(c.queued("next", "x", store.Waiting))
			u := c.revive(head)
			rival := c.tryRevive(next.ID)
			c.waits(1, rival)
			u.rollback()
			c.refusal(c.receive(rival), store.ErrBehind, next.ID)
			u = c.revive(head)
			rival = c.tryRevive(next.ID)
			c.waits(1, rival)
			u.commit()
			c.accept(c.receive(rival), next).commit()
			c.begun(store.New, c.ordered("n", "x")).rollback()
		},
	}, {
		"a discard beside a revival",
		"A letter that is being revived is discarded only if the revival is rolled back: it is never both run and counted as discarded.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for i, commit := range []bool{true, false} {
				d := c.buried(c.queued("m", string(rune('a'+i)), store.Dead))
				u := c.revive(d)
				type answer struct {
					n   int
					err error
				}
				done := begun(e, func(ctx context.Context) answer {
					n, err := c.Letters.DiscardDead(ctx, d.ID)
					return answer{n, err}
				})
				c.pause(func() bool { return len(done) > 0 })
				want := 1
				if commit {
					u.commit()
					want = 0
				} else {
					u.rollback()
				}
				a := within(e, "DiscardDead", func(context.Context) answer { return <-done })
				c.check("DiscardDead", a.err)
				if a.n != want {
					e.failf("DiscardDead says %d where %d is right", a.n, want)
				}
			}
		},
	}}
}

// reviveBusyRules have a short lock limit.
func reviveBusyRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"a message behind a long revival",
		"A message whose ordering key is revived for longer than the lock limit is FaultBusy, and nothing of it is left open.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.revive(c.buried(c.queued("head", "x", store.Dead)))
			for _, more := range [][]store.Mark{nil, {c.marks.mark("with"), c.ordered("it", "y")}} {
				marks := append([]store.Mark{c.ordered("n", "x")}, more...)
				o := within(e, "Begin", func(ctx context.Context) opened[TTx] { return c.marks.try(ctx, marks) })
				c.marks.busy("Begin", o.err)
			}
			u.commit()
			c.marks.beginAll([]store.Mark{c.ordered("n", "x"), c.marks.mark("with"), c.ordered("it", "y")}, []store.Status{store.New, store.New, store.New}).commit()
		},
	}, {
		"a revival behind a long transaction",
		"A revival of a letter or a key that is held for longer than the lock limit is FaultBusy, and nothing of it is left open.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			d := c.buried(c.queued("head", "x", store.Dead))
			u := c.revive(d)
			r := c.receive(c.tryRevive(d.ID))
			c.marks.busy("Revive", r.err)
			u.rollback()
			u = c.begun(store.Blocked, c.ordered("n", "x"))
			r = c.receive(c.tryRevive(d.ID))
			c.marks.busy("Revive", r.err)
			u.rollback()
			c.revive(d).commit()
		},
	}}
}
