package consumertest

import (
	"errors"
	"fmt"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

var applied = dedup.Result{Outcome: dedup.Applied}

func failed(f store.Fault, err error) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: f, Err: err}
}

var errBad = errors.New("bad")

// settled are the results after which a message needs no further delivery.
var settled = []dedup.Outcome{dedup.Applied, dedup.Duplicate, dedup.Buried, dedup.Parked}

// ackRules are about when the broker is told.
func ackRules() []rule {
	return []rule{{
		name: "settled is acknowledged",
		says: "A message that is applied, a duplicate, buried or parked is acknowledged, and is not handed over again.",
		test: func(e *exam) {
			e.publish(numbered(len(settled))...)
			a := e.actor()
			r := e.start(a, settings())
			seen := map[string]bool{}
			for _, o := range settled {
				c := e.next(a)
				if seen[string(c.Body)] {
					e.failf("%s for the second time", c)
				}
				seen[string(c.Body)] = true
				c.answer(dedup.Result{Outcome: o})
			}
			e.leftBecomes(0)
			e.silent(a)
			r.stop()
			e.start(a, settings())
			e.silent(a)
		},
	}, {
		name: "acknowledged after the result",
		says: "A message is acknowledged after the processor has settled it, and not before.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			c := e.given(a, "a")
			e.leftStays(1)
			c.answer(applied)
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name: "messages that come later",
		says: "What is published while the consumer runs is handed over as well.",
		test: func(e *exam) {
			a := e.actor()
			r := e.start(a, settings())
			for _, body := range numbered(3) {
				e.publish(body)
				e.given(a, body).answer(applied)
				e.leftBecomes(0)
			}
			r.stop()
		},
	}, {
		name: "unknown is not acknowledged",
		says: "A message whose outcome is unknown is not acknowledged, is handed over again, and has spent no attempt.",
		test: func(e *exam) {
			e.persists(dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: errBad})
			e.persists(dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultHandler, Err: dedup.Permanent(errBad)})
		},
	}, {
		name: "outage and busy",
		says: "A conflict, a busy key and an outage of the store are not the message's fault: it is not acknowledged, is handed over again, and has spent no attempt.",
		test: func(e *exam) {
			for _, f := range []store.Fault{store.FaultConflict, store.FaultBusy, store.FaultOutage} {
				e.persists(failed(f, errBad))
			}
		},
	}}
}

// persists demands that the result neither acknowledges nor spends, however often it is given.
func (e *exam) persists(result dedup.Result) {
	e.Helper()
	body := fmt.Sprintf("%s %s", result.Outcome, result.Fault)
	e.publish(body)
	a := e.actor()
	s := settings()
	s.Policy.MaxAttempts = 2
	r := e.start(a, s)
	for range 4 {
		c := e.given(a, body)
		if c.Attempt != 1 {
			e.failf("attempt %d after results of %q that spend none", c.Attempt, body)
		}
		e.left(1)
		c.answer(result)
	}
	c := e.given(a, body)
	e.leftStays(1)
	c.answer(applied)
	e.leftBecomes(0)
	r.stop()
}
