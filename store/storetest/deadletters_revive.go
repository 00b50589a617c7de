package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/semel-dev/semel/store"
)

// reviveRules are about one revival after another.
func reviveRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"a revived letter goes with the effect",
		"In a revival's transaction the letter is gone: it goes with the handler's effect at the commit, and until then everybody else sees it.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for _, order := range []string{"", "x"} {
				d := c.letter("m" + order)
				if order != "" {
					d.Order = []byte(order)
				}
				buried, other := c.buried(d), c.buried(c.letter("other"))
				u := c.revive(buried)
				u.effect("e" + order)
				c.get(buried.ID)
				c.marks.effects("e"+order, 0)
				u.commit()
				c.marks.effects("e"+order, 1)
				if got := c.tryGet(buried.ID); !errors.Is(got.err, store.ErrNotFound) {
					e.failf("GetDead after the commit: letter %d, error %v", got.ID, got.err)
				}
				c.listed("", 0, 10, "other")
				c.discard(1, other.ID)
			}
		},
	}, {
		"a revival rolled back",
		"A rollback leaves the letter and the parking of its key as they were, and no effect.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			buried := c.buried(c.queued("m", "x", store.Dead))
			since := c.parkedKeys("", 1)[0].Since
			for range 2 {
				u := c.revive(buried)
				u.effect("e")
				u.rollback()
				c.marks.effects("e", 0)
				c.same("the letter after the rollback", c.get(buried.ID).DeadLetter, buried)
				c.begun(store.Blocked, c.ordered("n", "x")).rollback()
				if k := c.parkedKeys("", 1); len(k) != 1 || !k[0].Since.Equal(since) {
					e.failf("the key was parked since %s, now %+v", since, k)
				}
			}
		},
	}, {
		"revivals in their order",
		"A letter of an ordering key of which an earlier letter is there is refused with ErrBehind, and nothing is left open.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			head, second, third := c.buried(c.queued("head", "x", store.Dead)), c.buried(c.queued("second", "x", store.Waiting)), c.buried(c.queued("third", "x", store.Dead))
			free := c.buried(c.queued("other key", "y", store.Dead))
			theirs := c.queued("other consumer", "x", store.Dead)
			theirs.Consumer = otherConsumer
			foreign := c.buried(theirs)
			late, conflicting := c.buried(c.queued("late", "x", store.Quarantined)), c.buried(c.queued("conflicting", "x", store.Conflicting))
			for range 20 {
				c.refused(store.ErrBehind, second.ID)
				c.refused(store.ErrBehind, third.ID)
			}
			c.revive(free).rollback()
			c.revive(foreign).rollback()
			c.revive(late).commit()
			c.revive(conflicting).rollback()
			c.revive(head).commit()
			c.refused(store.ErrBehind, third.ID)
			c.revive(second).commit()
			c.revive(third).commit()
		},
	}, {
		"no letter to revive",
		"Revive of a letter that is not there is ErrNotFound, and nothing is left open.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			gone, run := c.buried(c.letter("gone")), c.buried(c.letter("run"))
			c.discard(1, gone.ID)
			c.revive(run).commit()
			for range 10 {
				for _, id := range []int64{0, -1, gone.ID, run.ID, math.MaxInt64} {
					c.refused(store.ErrNotFound, id)
				}
			}
		},
	}, {
		"the last revival releases the key",
		"With the commit that runs the last letter of an ordering key the key is no longer parked, and not before.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			var queue []store.DeadLetter
			for i, state := range []store.LetterState{store.Dead, store.Waiting, store.Dead, store.Waiting} {
				queue = append(queue, c.buried(c.queued(fmt.Sprint(i), "x", state)))
			}
			late := c.buried(c.queued("late", "x", store.Quarantined))
			for i, d := range queue {
				c.begun(store.Blocked, c.ordered("n", "x")).rollback()
				c.parked("", 10, parkedKey{consumer, "x", d.ID, len(queue) - 1 - i})
				c.revive(d).commit()
			}
			c.begun(store.New, c.ordered("n", "x")).commit()
			c.parked("", 10)
			c.revive(late).commit()
			c.buried(c.queued("again", "x", store.Dead))
			c.begun(store.Blocked, c.ordered("o", "x")).rollback()
		},
	}, {
		"a revival goes on",
		"A revival's unit is a unit like any other: Next commits it, sets the next marks and may be rolled back alone.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.revive(c.buried(c.queued("m", "x", store.Dead)))
			u.effect("first")
			u.next(store.New, c.ordered("n", "x"))
			u.effect("second")
			u.rollback()
			c.marks.effects("first", 1)
			c.marks.effects("second", 0)
			c.listed("", 0, 10)
			c.begun(store.New, c.ordered("n", "x")).rollback()
		},
	}}
}

// revived is the answer to a Revive.
type revived[TTx any] struct {
	unit   store.Unit[TTx]
	letter store.DeadLetter
	err    error
}

func (c *lettersCase[TTx]) tryRevive(id int64) <-chan revived[TTx] {
	return begun(c.exam, func(ctx context.Context) revived[TTx] {
		u, letter, err := c.Reviver.Revive(ctx, id)
		return revived[TTx]{u, letter, err}
	})
}

func (c *lettersCase[TTx]) receive(rival <-chan revived[TTx]) revived[TTx] {
	c.Helper()
	r := within(c.exam, "Revive", func(context.Context) revived[TTx] { return <-rival })
	if r.unit != nil {
		c.marks.tidyUp(r.unit)
	}
	return r
}

// accept checks the answer to a Revive that had to succeed.
func (c *lettersCase[TTx]) accept(r revived[TTx], want store.DeadLetter) *marksUnit[TTx] {
	c.Helper()
	c.check(fmt.Sprintf("Revive(%d)", want.ID), r.err)
	c.same("the revived letter", r.letter, want)
	return &marksUnit[TTx]{c.marks, r.unit}
}

func (c *lettersCase[TTx]) revive(want store.DeadLetter) *marksUnit[TTx] {
	c.Helper()
	return c.accept(c.receive(c.tryRevive(want.ID)), want)
}

func (c *lettersCase[TTx]) refused(want error, id int64) {
	c.Helper()
	c.refusal(c.receive(c.tryRevive(id)), want, id)
}

func (c *lettersCase[TTx]) refusal(r revived[TTx], want error, id int64) {
	c.Helper()
	if !errors.Is(r.err, want) || r.unit != nil {
		c.failf("Revive(%d): letter %d, error %v where %q is right", id, r.letter.ID, r.err, want)
	}
}

// waits returns when a revival waits, as the n-th call to do so, and ends the case where it does not.
func (c *lettersCase[TTx]) waits(n int, rival <-chan revived[TTx]) {
	c.Helper()
	c.marks.awaitBlocked(n)
	select {
	case r := <-rival:
		if r.unit != nil {
			c.marks.tidyUp(r.unit)
		}
		c.failf("the revival did not wait: letter %d, error %v", r.letter.ID, r.err)
	default:
	}
}
