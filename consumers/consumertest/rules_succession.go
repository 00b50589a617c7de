package consumertest

import (
	"slices"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// successionRules are about one consumer after another, and beside another.
func successionRules() []rule {
	return []rule{{
		name: "the next consumer",
		says: "What a consumer had not settled when it ended is handed over to the next one, and what it had settled is not.",
		test: func(e *exam) {
			e.publish(numbered(10)...)
			a := e.actor()
			r := e.start(a, settings())
			done := []string{}
			for i := range 4 {
				c := e.next(a)
				done = append(done, string(c.Body))
				if i == 3 {
					r.cancel()
					time.Sleep(e.Grace) // until it has heard of it
				}
				c.answer(applied)
			}
			e.drain(a, r, &done)
			e.left(10 - len(done))
			next := e.actor()
			n := e.start(next, settings())
			for body := range e.settle(next) {
				done = append(done, body)
			}
			e.Log(done)
			e.all(done, 10)
			n.stop()
		},
	}, {
		name: "two consumers",
		says: "While two consumers share a log and one of them ends, every message is settled, and none twice.",
		test: func(e *exam) {
			e.publish(numbered(10)...)
			a, b := e.actor(), e.actor()
			first := e.start(a, settings())
			done := []string{}
			for range 5 {
				c := e.next(a)
				done = append(done, string(c.Body))
				c.answer(applied)
			}
			second := e.start(b, settings())
			first.cancel()
			e.drain(a, first, &done)
			e.publish("last")
			for body, n := range e.settle(b) {
				if n > 1 {
					e.failf("%s was handed over %d times", body, n)
				}
				done = append(done, body)
			}
			done = slices.DeleteFunc(done, func(body string) bool { return body == "last" })
			e.all(done, 10)
			second.stop()
		},
	}, {
		name:  "a consumer that is killed",
		needs: []Ability{Killing},
		says:  "What a consumer had in hand when it was killed is handed over to another one, with the same position, and what it answers afterwards changes nothing.",
		test: func(e *exam) {
			e.publish(numbered(3)...)
			a := e.actor()
			s := settings()
			s.Drain = 0
			r := e.start(a, s)
			dead := e.next(a)
			r.Kill()
			b := e.actor()
			heir := e.start(b, settings())
			seen := map[string]dedup.Position{}
			for len(seen) < 3 {
				c := e.next(b)
				seen[string(c.Body)] = c.Position
				if len(seen) == 1 {
					dead.answer(applied)
					e.leftStays(3)
				}
				c.answer(applied)
			}
			if !positionsEqual(seen[string(dead.Body)], dead.Position) {
				e.failf("%s was at %+v and is at %+v", dead.Body, dead.Position, seen[string(dead.Body)])
			}
			e.leftBecomes(0)
			heir.stop()
			r.cancel()
			// It may return an error or not: nobody is there to hear it.
			_ = r.wait(s.Drain + e.Overtime)
		},
	}}
}

// drain answers what has begun with applied until Run has returned, clean.
func (e *exam) drain(a *actor, r *running, done *[]string) {
	e.Helper()
	for {
		select {
		case c := <-a.calls:
			*done = append(*done, string(c.Body))
			c.answer(applied)
		case <-r.done:
			if r.err != nil {
				e.failf("Run returned %v", r.err)
			}
			return
		}
	}
}

// all demands that each of n messages is there, once.
func (e *exam) all(got []string, n int) {
	e.Helper()
	slices.Sort(got)
	want := numbered(n)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		e.failf("settled were %v where %v is right", got, want)
	}
}
