package consumertest

import "time"

// networkRules are about brokers that are away for a while.
func networkRules() []rule {
	return []rule{{
		name:  "a broker that restarts",
		needs: []Ability{Restarting},
		says:  "A restart of the broker does not end Run: what was in hand is settled, and what is published afterwards is handed over.",
		test: func(e *exam) {
			e.publish("before")
			a := e.actor()
			r := e.start(a, settings())
			c := e.given(a, "before")
			e.Restart()
			r.runs()
			c.answer(applied)
			e.settle(a)
			e.publish("after")
			if e.settle(a)["after"] == 0 {
				e.failf("it was not handed over")
			}
			r.stop()
		},
	}, {
		name:  "a network that freezes",
		needs: []Ability{Freezing},
		says:  "A network that carries nothing for a while does not end Run: what was in hand is settled, and what is published meanwhile is handed over.",
		test: func(e *exam) {
			e.publish("before")
			a := e.actor()
			r := e.start(a, settings())
			c := e.given(a, "before")
			r.Freeze()
			c.answer(applied)
			e.publish("after")
			e.leftStays(2)
			r.runs()
			r.Thaw()
			if e.settle(a)["after"] == 0 {
				e.failf("it was not handed over")
			}
			r.stop()
		},
	}, {
		name:  "a consumer that was taken for dead",
		needs: []Ability{Freezing},
		says:  "A consumer whose messages another one has settled meanwhile does no harm when its network comes back: nothing is lost by its late acknowledgements, and both go on.",
		test: func(e *exam) {
			e.publish(numbered(5)...)
			a, b := e.actor(), e.actor()
			first := e.start(a, settings())
			late := e.next(a)
			first.Freeze()
			second := e.start(b, settings())
			if n := len(e.settle(b)); n != 5 {
				e.failf("%d messages were handed to the other consumer where 5 are right", n)
			}
			first.Thaw()
			late.answer(applied)
			e.publish("after")
			handed := false
			for limit := time.Now().Add(patience); e.Left() > 0 || !handed; {
				var c *call
				select {
				case c = <-a.calls:
				case c = <-b.calls:
				case <-time.After(10 * time.Millisecond):
				}
				if c != nil {
					handed = handed || string(c.Body) == "after"
					c.answer(applied)
				}
				if time.Now().After(limit) {
					e.failf("%d messages are left at the broker after %s, the last one was handed over: %t", e.Left(), patience, handed)
				}
			}
			first.runs()
			second.runs()
			for _, r := range []*running{first, second} {
				var rest []string
				r.cancel()
				e.drain(a, r, &rest)
			}
		},
	}, {
		name:  "the end on a frozen network",
		needs: []Ability{Freezing},
		says:  "A broker that does not answer does not keep Run from returning in time, and what it has not acknowledged is handed over to the next consumer.",
		test: func(e *exam) {
			e.publish(numbered(3)...)
			a := e.actor()
			s := settings()
			s.Drain = 0
			r := e.start(a, s)
			c := e.next(a)
			r.Freeze()
			r.cancel()
			c.answer(applied)
			// Whether it can know that the broker heard nothing is its own affair.
			_ = r.wait(e.Overtime)
			e.left(3)
			b := e.actor()
			next := e.start(b, settings())
			if seen := e.settle(b); len(seen) != 3 {
				e.failf("handed over were %v where three messages are right", seen)
			}
			next.stop()
		},
	}}
}
