package consumertest

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// batchRules are about processors that take several messages at once.
func batchRules() []rule {
	return []rule{{
		name: "each",
		says: "A processor that takes messages one after another may answer fewer than it was given: what it has settled is acknowledged, the one that it has not is tried again, and those behind it are handed over again.",
		test: func(e *exam) {
			s := settings()
			s.Policy.MaxAttempts = 10
			e.badApples(func(a *actor) dedup.Processor { return each{a} }, s, 40)
		},
	}, {
		name:  "a batch is full",
		needs: []Ability{Batches},
		says:  "A batch is handed over when it is full, and holds no more than it may.",
		test: func(e *exam) {
			e.publish(numbered(20)...)
			a := e.actor()
			s := settings()
			s.Batch, s.Linger = 10, time.Hour
			r := e.start(batch{a}, s)
			for range 20 {
				c := e.next(a)
				if c.together != 10 {
					e.failf("a batch of %d where 10 is right", c.together)
				}
				c.answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name:  "a batch that does not fill",
		needs: []Ability{Batches},
		says:  "A batch that is not full is handed over when its first message has lingered as long as was said, and not before.",
		test: func(e *exam) {
			e.publish(numbered(3)...)
			a := e.actor()
			s := settings()
			s.Batch, s.Linger = 10, 500*time.Millisecond
			begun := time.Now()
			r := e.start(batch{a}, s)
			for range 3 {
				c := e.next(a)
				if waited := c.at.Sub(begun); waited < s.Linger {
					e.failf("handed over after %s where the batch might have filled until %s", waited, s.Linger)
				}
				if c.together != 3 {
					e.failf("a batch of %d where 3 is right", c.together)
				}
				c.answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name:  "a bad message in a batch",
		needs: []Ability{Batches},
		says:  "A message of a batch that fails takes no other with it: those before it are acknowledged, and those behind it are handed over again without having spent an attempt.",
		test: func(e *exam) {
			s := settings()
			s.Policy.MaxAttempts = 10
			s.Batch, s.Linger = 10, 20*time.Millisecond
			e.badApples(func(a *actor) dedup.Processor { return batch{a} }, s, 40)
		},
	}, {
		name:  "acknowledged after the batch",
		needs: []Ability{Batches},
		says:  "No message of a batch is acknowledged before the processor has returned.",
		test: func(e *exam) {
			e.publish(numbered(4)...)
			a := e.actor()
			s := settings()
			s.Batch, s.Linger = 4, time.Hour
			r := e.start(batch{a}, s)
			for range 3 {
				e.next(a).answer(applied)
			}
			c := e.next(a)
			e.leftStays(4)
			c.answer(applied)
			e.leftBecomes(0)
			r.stop()
		},
	}}
}

// badApples has every seventh message fail twice, and demands that all messages are settled, in
// one run that is theirs and as many attempts as they have failed.
func (e *exam) badApples(as func(*actor) dedup.Processor, s Settings, n int) {
	e.Helper()
	e.publish(numbered(n)...)
	bad := map[string]bool{}
	for i := 3; i < n; i += 7 {
		bad[fmt.Sprint("m", i)] = true
	}
	a := e.actor()
	r := e.start(as(a), s)
	runs := map[string]int{}
	for done := 0; done < n; {
		c := e.next(a)
		body := string(c.Body)
		runs[body]++
		if c.Attempt != runs[body] {
			e.failf("%s, which was handed over %d times and did not fail but by its own fault", c, runs[body])
		}
		if bad[body] && runs[body] < 3 {
			c.answer(failed(store.FaultHandler, errBad))
			continue
		}
		if !bad[body] && runs[body] > 1 {
			e.failf("%s although it was settled before", c)
		}
		done++
		c.answer(applied)
	}
	e.leftBecomes(0)
	e.silent(a)
	r.stop()
}
