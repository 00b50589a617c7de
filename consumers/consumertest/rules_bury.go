package consumertest

import (
	"errors"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// hopeless are results that no further attempt can mend.
func hopeless() map[string]dedup.Result {
	return map[string]dedup.Result{
		"permanent":  failed(store.FaultHandler, dedup.Permanent(errBad)),
		"no key":     failed(store.FaultHandler, &dedup.KeyError{Err: dedup.ErrNoKey}),
		"mismatched": {Outcome: dedup.Mismatched, Fault: store.FaultHandler, Err: &dedup.MismatchError{Key: []byte("k")}},
		"late":       {Outcome: dedup.Late, Fault: store.FaultHandler, Err: dedup.ErrLate},
	}
}

// buryRules are about messages that are given up.
func buryRules() []rule {
	return []rule{{
		name: "buried after the last attempt",
		says: "A message is buried once it has failed as often as the policy says, with that number and the last error, and is acknowledged once its dead letter is committed and not before.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			for range 2 {
				e.given(a, "a").answer(failed(store.FaultHandler, errors.New("earlier")))
			}
			e.given(a, "a").answer(failed(store.FaultHandler, &dedup.PanicError{Value: errBad}))
			c := e.buries(a, "a")
			if c.Attempt != 3 || !errors.Is(c.reason, errBad) {
				e.failf("buried with attempt %d and the reason %v", c.Attempt, c.reason)
			}
			e.leftStays(1)
			c.answer(dedup.Result{Outcome: dedup.Buried})
			e.leftBecomes(0)
			e.silent(a)
			r.stop()
		},
	}, {
		name: "buried at once",
		says: "A message that no further attempt can mend is buried at once: one that failed for good, has no key, has the key of another one, or is older than the marks.",
		test: func(e *exam) {
			a := e.actor()
			s := settings()
			s.Policy.MaxAttempts = 10
			r := e.start(a, s)
			for name, result := range hopeless() {
				e.publish(name)
				e.given(a, name).answer(result)
				c := e.buries(a, name)
				e.left(1)
				c.answer(dedup.Result{Outcome: dedup.Buried})
				e.leftBecomes(0)
			}
			r.stop()
		},
	}, {
		name: "a burial that fails",
		says: "A burial that failed or whose end is unknown is repeated, or the message runs again, before anything is acknowledged.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			results := []dedup.Result{
				failed(store.FaultOutage, errBad),
				{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: errBad},
				failed(store.FaultBusy, errBad),
				{Outcome: dedup.Buried},
			}
			for len(results) > 0 {
				c := e.next(a)
				e.left(1)
				if !c.burial {
					c.answer(failed(store.FaultHandler, dedup.Permanent(errBad)))
					continue
				}
				if results[0].Outcome == dedup.Buried {
					e.leftStays(1)
				}
				c.answer(results[0])
				results = results[1:]
			}
			e.leftBecomes(0)
			e.silent(a)
			r.stop()
		},
	}, {
		name: "a burial that needs a person",
		says: "A burial that needs a person ends Run with its error, and the message is not acknowledged.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			e.given(a, "a").answer(failed(store.FaultHandler, dedup.Permanent(errors.New("bad"))))
			e.buries(a, "a").answer(failed(store.FaultSetup, errBad))
			r.dies(errBad)
			e.leftStays(1)
		},
	}, {
		name: "found done while buried",
		says: "A message that turns out to be done when it is buried is acknowledged.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			e.given(a, "a").answer(failed(store.FaultHandler, dedup.Permanent(errBad)))
			e.buries(a, "a").answer(dedup.Result{Outcome: dedup.Duplicate})
			e.leftBecomes(0)
			e.silent(a)
			r.stop()
		},
	}, {
		name: "without dead letters",
		says: "Where there are no dead letters, Run returns the error of a message that would be given up, and the message is not acknowledged.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			s := settings()
			s.WithoutDeadLetters = true
			r := e.start(buryless{a}, s)
			for range 3 {
				e.given(a, "a").answer(failed(store.FaultHandler, errBad))
			}
			r.dies(errBad)
			e.leftStays(1)
			next := e.start(buryless{a}, s)
			e.given(a, "a").answer(applied)
			e.leftBecomes(0)
			next.stop()
		},
	}, {
		name: "a processor that cannot bury",
		says: "A processor that cannot bury is refused by the constructor, unless it is told that there are no dead letters.",
		test: func(e *exam) {
			if _, err := e.Open(buryless{e.actor()}, settings()); err == nil {
				e.failf("it was accepted")
			}
		},
	}}
}
