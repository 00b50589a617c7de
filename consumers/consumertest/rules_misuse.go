package consumertest

import (
	"context"
	"errors"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// misuseRules are about what needs a person.
func misuseRules() []rule {
	nothing := func(context.Context, []dedup.Message) []dedup.Result { return nil }
	more := func(_ context.Context, ms []dedup.Message) []dedup.Result {
		results := make([]dedup.Result, len(ms)+1)
		for i := range results {
			results[i] = applied
		}
		return results
	}
	return []rule{{
		name: "a store that is not set up",
		says: "A result that needs a person ends Run with its error, and the message is not acknowledged.",
		test: func(e *exam) {
			e.stops(failed(store.FaultSetup, errBad))
		},
	}, {
		name: "cancelled by nobody",
		says: "A result that says that the context ended, while it did not, ends Run with its error, and the message is not acknowledged.",
		test: func(e *exam) {
			e.stops(failed(store.FaultCanceled, errBad))
		},
	}, {
		name: "a store that is not ready",
		says: "Run asks the processor whether its store is ready before it fetches anything, and returns its error.",
		test: func(e *exam) {
			e.publish("a")
			a, reason := e.actor(), errors.New("no tables")
			e.start(unready{a, reason}, settings()).dies(reason)
			e.silent(a)
			e.left(1)
		},
	}, {
		name: "no results",
		says: "A processor that returns no results for several messages ends Run with an error, and nothing is acknowledged.",
		test: func(e *exam) { e.refusesResults(nothing) },
	}, {
		name: "too many results",
		says: "A processor that returns more results than it was given messages ends Run with an error, and nothing is acknowledged.",
		test: func(e *exam) { e.refusesResults(more) },
	}, {
		name:  "results of a batch",
		needs: []Ability{Batches},
		says:  "A processor that returns no or too many results for a batch ends Run with an error, and nothing is acknowledged.",
		test: func(e *exam) {
			s := settings()
			s.Batch = 2
			e.publish(numbered(2)...)
			for _, results := range []func(context.Context, []dedup.Message) []dedup.Result{nothing, more} {
				e.start(rude{e.actor(), results}, s).dies(nil)
				e.leftStays(2)
			}
		},
	}, {
		name: "results behind a failed one",
		says: "Results behind one that is not settled count for nothing: their messages are handed over again.",
		test: func(e *exam) {
			e.publish(numbered(12)...)
			a := e.actor()
			r := e.start(rude{a, func(ctx context.Context, ms []dedup.Message) []dedup.Result {
				results := a.several(ctx, ms)
				for last := results[len(results)-1]; !last.Outcome.Settled() && len(results) < len(ms); {
					results = append(results, applied)
				}
				return results
			}}, settings())
			seen, failures := map[string]bool{}, 0
			for len(seen) < 12 {
				c := e.next(a)
				if c.together > 1 && failures < 3 {
					failures++
					c.answer(failed(store.FaultBusy, errBad))
					continue
				}
				seen[string(c.Body)] = true
				c.answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
		},
	}}
}

// stops demands that the result ends Run, and that the message comes again.
func (e *exam) stops(result dedup.Result) {
	e.Helper()
	e.publish("a")
	a := e.actor()
	r := e.start(a, settings())
	e.given(a, "a").answer(result)
	r.dies(errBad)
	e.leftStays(1)
	next := e.start(a, settings())
	c := e.given(a, "a")
	if c.Attempt != 1 {
		e.failf("%s, though no attempt was spent", c)
	}
	c.answer(applied)
	e.leftBecomes(0)
	next.stop()
}

func (e *exam) refusesResults(results func(context.Context, []dedup.Message) []dedup.Result) {
	e.Helper()
	e.publish("a")
	e.start(rude{e.actor(), results}, settings()).dies(nil)
	e.leftStays(1)
}
