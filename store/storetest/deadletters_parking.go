package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// parkRules are about the messages of a parked ordering key.
func parkRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"a dead letter parks its key",
		"From the commit of a dead letter on, marks of its ordering key are Blocked, and those of other keys or of none are New.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.begun(store.New, c.ordered("m", "x"))
			c.bury(u, c.queued("m", "x", store.Dead))
			c.begun(store.New, c.ordered("early", "x")).rollback()
			u.rollback()
			c.begun(store.New, c.ordered("n", "x")).rollback()

			u = c.begun(store.New, c.ordered("m", "x"))
			c.bury(u, c.queued("m", "x", store.Dead))
			u.commit()
			for _, timed := range []bool{false, true} {
				for range 2 {
					blocked, other, free := c.ordered("n", "x"), c.ordered("o", "X"), c.marks.mark("p")
					if timed {
						blocked.Key, other.Key = c.marks.timed(epoch, "n").Key, c.marks.timed(epoch, "o").Key
					}
					c.begun(store.Blocked, blocked).rollback()
					c.begun(store.New, other).rollback()
					c.marks.beginAll([]store.Mark{other, blocked, free, blocked}, []store.Status{store.New, store.Blocked, store.New, store.Seen}).rollback()
				}
			}
		},
	}, {
		"a key is parked for its consumer",
		"An ordering key is parked for the consumer of the letter and for no other.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			c.buried(c.queued("m", "x", store.Dead))
			own, others := c.ordered("n", "x"), c.ordered("n", "x")
			others.Scope = c.marks.scopeOf(otherConsumer)
			c.begun(store.New, others).rollback()
			c.marks.beginAll([]store.Mark{others, own}, []store.Status{store.New, store.Blocked}).rollback()
		},
	}, {
		"only the dead park",
		"A letter that is Waiting, Quarantined or Conflicting parks no key, nor does a dead one without an ordering key.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for _, state := range []store.LetterState{store.Waiting, store.Quarantined, store.Conflicting} {
				c.buried(c.queued("m", "x", state))
				c.begun(store.New, c.ordered("n", "x")).rollback()
			}
			c.buried(c.letter("without a key"))
			c.begun(store.New, c.ordered("n", "x")).rollback()
			c.begun(store.New, c.marks.mark("n")).rollback()
			c.parked("", 10)
		},
	}, {
		"a blocked mark is set",
		"A Blocked mark is set as a New one is: Seen after a commit, Blocked again after a rollback. What was Seen is Seen, parked or not.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			c.begun(store.New, c.ordered("done", "x")).commit()
			c.buried(c.queued("m", "x", store.Dead))
			m := c.ordered("n", "x")
			c.begun(store.Blocked, m).rollback()
			u := c.begun(store.Blocked, m)
			c.bury(u, c.queued("n", "x", store.Waiting))
			u.next(store.Blocked, c.ordered("o", "x"))
			u.commit()
			c.marks.beginAll([]store.Mark{c.ordered("o", "x"), m, c.ordered("done", "x")}, []store.Status{store.Seen, store.Seen, store.Seen}).rollback()
		},
	}, {
		"blocked in a large batch",
		"In a batch each mark has its own status, whatever the ordering keys of the others are.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for i := range 10 {
				c.buried(c.queued("m", string(rune('a'+i)), store.Dead))
			}
			var marks []store.Mark
			var want []store.Status
			other := c.marks.scopeOf(otherConsumer)
			for i := range 500 {
				m := c.ordered("batch", string(rune('a'+i%20)), i)
				if i%3 == 0 {
					m.Key = c.marks.timed(epoch.Add(time.Duration(i)*time.Second), "batch", i).Key
				}
				st := store.New
				if i%20 < 10 {
					st = store.Blocked
				}
				if i%7 == 0 {
					m.Scope, st = other, store.New
				}
				marks, want = append(marks, m), append(want, st)
			}
			c.marks.beginAll(marks, want).commit()
			c.marks.beginAll(marks, slices.Repeat([]store.Status{store.Seen}, len(marks))).rollback()
		},
	}, {
		"parked keys",
		"ParkedKeys tells of each parked key which letter it waits for and why, since when, and how many wait behind, those that have waited longest first.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			c.parked("", 10)
			var heads []store.DeadLetter
			orders := []string{"x", "\x00\xff", "y"}
			for i, order := range orders {
				d := c.queued("m", order, store.Dead)
				d.Reason = order + " declined"
				d.Consumer = []string{consumer, otherConsumer}[i%2]
				heads = append(heads, c.buried(d))
				time.Sleep(2 * time.Millisecond)
			}
			for _, state := range []store.LetterState{store.Waiting, store.Dead, store.Quarantined, store.Conflicting} {
				c.buried(c.queued("m", "x", state))
			}
			first := parkedKey{consumer, "x", heads[0].ID, 2}
			second := parkedKey{otherConsumer, "\x00\xff", heads[1].ID, 0}
			third := parkedKey{consumer, "y", heads[2].ID, 0}
			c.parked("", 10, first, second, third)
			c.parked("", 2, first, second)
			c.parked(consumer, 10, first, third)
			c.parked(otherConsumer, 10, second)
			c.parked("nobody", 10)
			for i, k := range c.parkedKeys("", 10) {
				if !k.Since.Equal(heads[i].BuriedAt) {
					e.failf("key %q is parked since %s and its letter was buried at %s", k.Order, k.Since, heads[i].BuriedAt)
				}
				if want := c.get(heads[i].ID).Reason; k.Reason != want {
					e.failf("key %q waits for %q where the letter says %q", k.Order, k.Reason, want)
				}
			}
		},
	}}
}

// ordered is a mark with an ordering key.
func (c *lettersCase[TTx]) ordered(name, order string, more ...any) store.Mark {
	m := c.marks.mark(append([]any{name, "/", order, "/"}, more...)...)
	m.Order = store.OrderID([]byte(order))
	return m
}

// queued is a letter with an ordering key.
func (c *lettersCase[TTx]) queued(name, order string, state store.LetterState) store.DeadLetter {
	d := c.letter(name)
	d.Order, d.State = []byte(order), state
	return d
}

func (c *lettersCase[TTx]) begun(want store.Status, m store.Mark) *marksUnit[TTx] {
	c.Helper()
	return c.marks.begin(want, m)
}

// parkedKey is what a case compares of a parked key.
type parkedKey struct {
	consumer, order string
	head            int64
	waiting         int
}

func (c *lettersCase[TTx]) parkedKeys(consumer string, limit int) []store.ParkedKey {
	c.Helper()
	type answer struct {
		keys []store.ParkedKey
		err  error
	}
	a := within(c.exam, "ParkedKeys", func(ctx context.Context) answer {
		keys, err := c.Letters.ParkedKeys(ctx, consumer, limit)
		return answer{keys, err}
	})
	c.check("ParkedKeys", a.err)
	return a.keys
}

func (c *lettersCase[TTx]) parked(consumer string, limit int, want ...parkedKey) {
	c.Helper()
	var got []parkedKey
	for _, k := range c.parkedKeys(consumer, limit) {
		got = append(got, parkedKey{k.Consumer, string(k.Order), k.Head, k.Waiting})
	}
	if !slices.Equal(got, want) {
		c.failf("ParkedKeys(%q, %d) is %+v where %+v is right", consumer, limit, got, want)
	}
}
