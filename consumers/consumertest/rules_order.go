package consumertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// orderRules are about what the harness says of order.
func orderRules() []rule {
	patient := failed(store.FaultHandler, dedup.RetryAfter(time.Hour, errBad))
	return []rule{{
		name: "the order of the log",
		only: []Order{InOrder},
		says: "Messages are handed over in the order of the log, one after another.",
		test: func(e *exam) {
			e.publish(numbered(30)...)
			a := e.actor()
			r := e.start(each{a}, settings())
			for i, body := range numbered(30) {
				c := e.given(a, body)
				if i == 0 {
					e.silent(a)
				}
				c.answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name: "behind a failed message",
		only: []Order{InOrder},
		says: "A message that was not settled holds up those behind it until it is settled or buried.",
		test: func(e *exam) {
			e.publish(numbered(6)...)
			a := e.actor()
			r := e.start(each{a}, settings())
			for _, body := range numbered(6) {
				if body == "m2" {
					e.given(a, body).answer(failed(store.FaultOutage, errBad))
					for range 3 {
						e.given(a, body).answer(failed(store.FaultHandler, errBad))
					}
					e.buries(a, body).answer(dedup.Result{Outcome: dedup.Buried})
					continue
				}
				if body == "m4" {
					e.given(a, body).answer(failed(store.FaultHandler, errBad))
				}
				e.given(a, body).answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name: "the order of a key",
		only: []Order{PerKey},
		says: "Messages of one key are handed over one after another in the order of the log, failures or not.",
		test: func(e *exam) {
			for i := range 10 {
				for _, key := range []string{"x", "y"} {
					e.Publish(Message{Key: []byte(key), Body: fmt.Append(nil, key, i)})
				}
			}
			a := e.actor()
			r := e.start(each{a}, settings())
			next := map[byte]int{}
			for n := 0; n < 20; {
				c := e.next(a)
				key := c.Body[0]
				if want := fmt.Sprint(string(key), next[key]); string(c.Body) != want {
					e.failf("%s where %s is the next one of the key", c, want)
				}
				if c.Attempt == 1 && next[key]%3 == 0 {
					c.answer(failed(store.FaultHandler, errBad))
					continue
				}
				if next[key] == 5 {
					e.noneOf(a, key)
				}
				next[key]++
				n++
				c.answer(applied)
			}
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name: "others go on",
		only: []Order{Unordered, PerKey},
		says: "A message that waits for its next attempt holds up no other one, or none of another key that does not share its lane.",
		test: func(e *exam) {
			e.Publish(Message{Key: []byte("x"), Body: []byte("bad")})
			a := e.actor()
			r := e.start(a, settings())
			e.given(a, "bad").answer(patient)
			e.othersGoOn(a)
			e.someLeft()
			r.cancel()
			var rest []string
			e.drain(a, r, &rest)
		},
	}, {
		name: "a slow handler",
		only: []Order{Unordered, PerKey},
		says: "A handler that takes its time holds up no other message, or none of another key that does not share its lane.",
		test: func(e *exam) {
			e.Publish(Message{Key: []byte("x"), Body: []byte("slow")})
			a := e.actor()
			r := e.start(a, settings())
			slow := e.given(a, "slow")
			e.othersGoOn(a)
			e.someLeft()
			slow.answer(applied)
			e.settle(a)
			r.stop()
		},
	}}
}

// othersGoOn publishes messages with other keys and demands that they are handed over, or some of
// them, where keys share lanes.
func (e *exam) othersGoOn(a *actor) {
	e.Helper()
	const others = 16
	need := others
	if e.Lanes > 0 {
		need = 1
	}
	for i := range others {
		e.Publish(Message{Key: fmt.Append(nil, "y", i), Body: fmt.Append(nil, "other ", i)})
	}
	for range need {
		c := e.next(a)
		if !strings.HasPrefix(string(c.Body), "other ") {
			e.failf("%s where the others should be", c)
		}
		c.answer(applied)
	}
}

// someLeft demands that something is not acknowledged: one message, or it and all behind it where
// the broker knows nothing but how far a consumer got.
func (e *exam) someLeft() {
	e.Helper()
	time.Sleep(e.Grace)
	if e.Left() < 1 {
		e.failf("nothing is left at the broker although one message is not settled")
	}
}

// noneOf demands that nothing of the key is handed over for a while. Others are to come again.
func (e *exam) noneOf(a *actor, key byte) {
	e.Helper()
	for limit := time.After(e.Grace); ; {
		select {
		case c := <-a.calls:
			if c.Body[0] == key {
				e.failf("%s while another one of its key is under way", c)
			}
			c.answer(failed(store.FaultBusy, errBad))
		case <-limit:
			return
		}
	}
}
