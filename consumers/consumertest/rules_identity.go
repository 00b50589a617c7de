package consumertest

import (
	"bytes"
	"slices"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// identityRules are about what a handler is told of a message.
func identityRules() []rule {
	return []rule{{
		name: "every field",
		says: "A handler is given headers and body byte by byte as they were published, with what the harness says of those that are empty.",
		test: func(e *exam) {
			e.passesThrough([]Message{
				{Headers: []dedup.Header{{Key: "b", Value: []byte("1")}, {Key: "B", Value: []byte("ä")}, {Key: "b", Value: []byte("0")}, {Key: "a", Value: []byte{}}}, Body: []byte("\x00\xff{}\r\n")},
				{Body: []byte("bare")},
				{Body: []byte{}},
				{},
				{Body: bytes.Repeat([]byte("0123456789abcdef"), 1<<12)},
			})
		},
	}, {
		name:  "keys",
		needs: []Ability{Keys},
		says:  "A handler is given the key byte by byte as it was published.",
		test: func(e *exam) {
			e.passesThrough([]Message{
				{Key: []byte("\x00\xff k "), Body: []byte("a")},
				{Key: []byte{}, Body: []byte("b")},
				{Body: []byte("c")},
			})
		},
	}, {
		name: "position",
		says: "Each message has a place of its own, with the broker, the log and the time of storing, and offsets rise in the order of the log.",
		test: func(e *exam) {
			e.publish(numbered(5)...)
			a := e.actor()
			r := e.start(a, settings())
			at := map[string]dedup.Position{}
			for range 5 {
				c := e.next(a)
				at[string(c.Body)] = c.Position
				c.answer(applied)
			}
			for i, body := range numbered(5) {
				p := at[body]
				if p.Broker == "" || p.Log == "" || p.Time.IsZero() {
					e.failf("%s is at %+v", body, p)
				}
				if i > 0 && p.Offset <= at[numbered(5)[i-1]].Offset {
					e.failf("%s is at %+v, behind %+v", body, p, at[numbered(5)[i-1]])
				}
			}
			e.leftBecomes(0)
			r.stop()
		},
	}, {
		name: "redelivery has the same position",
		says: "A message that is handed over again has the position that it had, in the same consumer and in the next one.",
		test: func(e *exam) {
			e.publish("a")
			a := e.actor()
			r := e.start(a, settings())
			c := e.given(a, "a")
			first := c.Position
			c.answer(failed(store.FaultHandler, errBad))
			c = e.given(a, "a")
			e.samePosition(c, first)
			c.answer(failed(store.FaultBusy, errBad))
			c = e.given(a, "a")
			e.samePosition(c, first)
			r.cancel()
			c.answer(failed(store.FaultOutage, errBad))
			if err := r.wait(patience); err != nil {
				e.failf("Run returned %v", err)
			}
			next := e.start(a, settings())
			c = e.given(a, "a")
			e.samePosition(c, first)
			c.answer(applied)
			e.leftBecomes(0)
			next.stop()
		},
	}, {
		name:  "a log made again",
		needs: []Ability{Remaking},
		says:  "In a log that was deleted and made again a message has a position of its own, though the offset may be an old one.",
		test: func(e *exam) {
			a := e.actor()
			var old dedup.Position
			for round := range 2 {
				e.publish("a")
				r := e.start(a, settings())
				c := e.given(a, "a")
				if round > 0 && positionsEqual(c.Position, old) {
					e.failf("both are at %+v", old)
				}
				old = c.Position
				c.answer(applied)
				e.leftBecomes(0)
				r.stop()
				if round == 0 {
					e.Remake()
				}
			}
		},
	}}
}

func positionsEqual(a, b dedup.Position) bool {
	same := a.Time.Equal(b.Time)
	a.Time = b.Time
	return same && a == b
}

func (e *exam) samePosition(c *call, want dedup.Position) {
	e.Helper()
	if !positionsEqual(c.Position, want) {
		e.failf("it was at %+v and is at %+v", want, c.Position)
	}
}

func (e *exam) passesThrough(ms []Message) {
	e.Helper()
	a := e.actor()
	r := e.start(a, settings())
	for _, m := range ms {
		if why := e.Lacks[Keys]; why != "" {
			m.Key = nil
		}
		e.Publish(m)
		want, c := e.Seen(m), e.next(a)
		if !equalBytes(c.Body, want.Body) {
			e.failf("body %q (nil: %t) where %q (nil: %t) is right", cut(c.Body), c.Body == nil, cut(want.Body), want.Body == nil)
		}
		if !equalBytes(c.Key, want.Key) {
			e.failf("key %q (nil: %t) where %q (nil: %t) is right", c.Key, c.Key == nil, want.Key, want.Key == nil)
		}
		if !slices.EqualFunc(c.Headers, want.Headers, func(a, b dedup.Header) bool { return a.Key == b.Key && equalBytes(a.Value, b.Value) }) {
			e.failf("headers %q where %q is right", c.Headers, want.Headers)
		}
		c.answer(applied)
	}
	e.leftBecomes(0)
	r.stop()
}

func equalBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func cut(b []byte) []byte { return b[:min(len(b), 100)] }
