package consumertest

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// retryRules are about messages that failed by their own fault.
func retryRules() []rule {
	return []rule{{
		name: "failed is not acknowledged",
		says: "A message that failed is not acknowledged and is handed over again, with its attempts counted from one.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			for attempt := range 2 {
				c := e.given(a, "a")
				if c.Attempt != attempt+1 {
					e.failf("attempt %d where %d is right", c.Attempt, attempt+1)
				}
				e.left(1)
				c.answer(failed(store.FaultHandler, errBad))
			}
			c := e.given(a, "a")
			e.leftStays(1)
			c.answer(applied)
			e.leftBecomes(0)
			e.silent(a)
			r.stop()
		},
	}, {
		name: "a handler's own delay",
		says: "A message whose handler asks for time is not handed over before that.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			e.waits(a, failed(store.FaultHandler, fmt.Errorf("wrapped: %w", dedup.RetryAfter(400*time.Millisecond, errBad))), 400*time.Millisecond)
			r.stop()
		},
	}, {
		name: "the policy's delay",
		says: "A message that was not settled is not handed over before the policy's delay, which is at least half of MinDelay.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			s := settings()
			s.Policy = consumers.Policy{MaxAttempts: 3, MinDelay: 400 * time.Millisecond, MaxDelay: time.Second}
			r := e.start(a, s)
			e.waits(a, failed(store.FaultHandler, errBad), 200*time.Millisecond)
			e.publish("a")
			e.waits(a, failed(store.FaultBusy, errBad), 200*time.Millisecond)
			r.stop()
		},
	}, {
		name: "delays hold nobody back",
		says: "A message that waits for its next attempt does not hold up the end of Run, which is clean.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			e.given(a, "a").answer(failed(store.FaultHandler, dedup.RetryAfter(time.Hour, errBad)))
			time.Sleep(e.Grace)
			r.cancel()
			if err := r.wait(e.Overtime); err != nil {
				e.failf("Run returned %v", err)
			}
			e.left(1)
		},
	}}
}

// waits gives the result for the next message and demands that the time passes before it comes again.
func (e *exam) waits(a *actor, result dedup.Result, least time.Duration) {
	e.Helper()
	c := e.given(a, "a")
	begun := time.Now()
	c.answer(result)
	again := e.given(a, "a")
	if took := again.at.Sub(begun); took < least {
		e.failf("it came again after %s where %s is the least", took, least)
	}
	again.answer(applied)
	e.leftBecomes(0)
}
