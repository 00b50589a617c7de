package consumertest

import (
	"context"
	"time"
)

// shutdownRules are about the end of Run.
func shutdownRules() []rule {
	return []rule{{
		name: "ended before it began",
		says: "Run with a context that has ended returns nil, and nothing is handed over.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := e.run(e.open(a, settings()), ctx).wait(e.Overtime); err != nil {
				e.failf("Run returned %v", err)
			}
			e.silent(a)
			e.left(1)
		},
	}, {
		name: "running handlers may finish",
		says: "When Run is to end, a running handler may finish within the drain limit, with its context alive; what it has settled is acknowledged, and Run returns nil.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			c := e.given(a, "a")
			r.cancel()
			e.leftStays(1)
			r.runs()
			if err := c.ctx.Err(); err != nil {
				e.failf("the context of the running handler has ended: %v", err)
			}
			c.answer(applied)
			if err := r.wait(e.Overtime); err != nil {
				e.failf("Run returned %v", err)
			}
			e.left(0)
		},
	}, {
		name: "cancelled at the drain limit",
		says: "A handler that is still running at the drain limit is cancelled; its message is not acknowledged and has spent no attempt, and Run says that it was not clean.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			s := settings()
			s.Drain = 200 * time.Millisecond
			r := e.start(a, s)
			c := e.given(a, "a")
			begun := time.Now()
			r.cancel()
			select {
			case <-c.ctx.Done():
			case <-time.After(patience):
				e.failf("its context does not end")
			}
			if took := time.Since(begun); took < s.Drain {
				e.failf("its context has ended after %s", took)
			}
			r.unclean(e.Overtime)
			e.leftStays(1)
			next := e.start(a, settings())
			if c = e.given(a, "a"); c.Attempt != 1 {
				e.failf("%s, though it was cancelled", c)
			}
			c.answer(applied)
			e.leftBecomes(0)
			next.stop()
		},
	}, {
		name: "a handler that hangs",
		says: "A handler that ignores its context does not keep Run from returning in time, which says that it was not clean; what the handler answers afterwards is not acknowledged.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			a.deaf = true
			s := settings()
			s.Drain = 100 * time.Millisecond
			r := e.start(a, s)
			c := e.given(a, "a")
			r.cancel()
			r.unclean(s.Drain + e.Overtime)
			c.answer(applied)
			e.leftStays(1)
		},
	}, {
		name: "nothing begins at the end",
		says: "When Run is to end, the handlers that have not begun do not begin, and once it has returned none ever does.",
		test: func(e *exam) {
			e.publish(numbered(200)...)
			a := e.actor()
			r := e.start(a, settings())
			first := e.next(a)
			e.leftStays(200)
			r.cancel()
			// Those that have begun wait for the case as well.
			begun := 0
			for held := []*call{first}; ; {
				select {
				case c := <-a.calls:
					held = append(held, c)
					continue
				case <-time.After(e.Grace):
				}
				for _, c := range held {
					c.answer(applied)
				}
				begun, held = begun+len(held), nil
				select {
				case c := <-a.calls:
					e.failf("%s after Run was to end", c)
				case <-r.done:
				case <-time.After(patience):
					e.failf("Run has not returned after %s", patience)
				}
				break
			}
			if r.err != nil {
				e.failf("Run returned %v", r.err)
			}
			e.left(200 - begun)
			e.publish("late")
			e.silent(a)
		},
	}, {
		name: "an idle consumer",
		says: "A consumer with nothing to do ends at once.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			e.given(a, "a").answer(applied)
			e.leftBecomes(0)
			r.cancel()
			if err := r.wait(e.Overtime); err != nil {
				e.failf("Run returned %v", err)
			}
		},
	}, {
		name: "no goroutine is left",
		says: "Once Run has returned, no goroutine that it or the client has started for it is left.",
		test: func(e *exam) {
			a := e.actor()
			c := e.open(a, settings())
			ctx, unmark := e.marked()
			r := e.run(c, ctx)
			unmark()
			for _, body := range numbered(3) {
				e.publish(body)
				e.given(a, body).answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
			e.noneMarked()
		},
	}}
}
