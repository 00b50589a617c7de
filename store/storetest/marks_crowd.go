package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/semel-dev/semel/store"
)

// crowdRules are about many callers at once.
func crowdRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"fifty rivals",
		"Of fifty rivals for one mark exactly one gets it New, and there is one effect.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			var handled []<-chan handling
			for i := range 50 {
				s := []*marksStore[TTx]{a, b}[i%2]
				handled = append(handled, begun(e, func(ctx context.Context) handling {
					return s.handle(ctx, "e", s.mark("m"))
				}))
			}
			fresh := 0
			for _, ch := range handled {
				h := within(e, "handling", func(context.Context) handling { return <-ch })
				e.check("handling", h.err)
				fresh += h.fresh
			}
			if fresh != 1 {
				e.failf("%d of them got it New", fresh)
			}
			a.effects("e", 1)
		},
	}, {
		"batches in opposite order",
		"Batches that overlap, in whatever order, do not deadlock and need no second try: each mark is New exactly once.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			other := a.scopeOf("another consumer")
			const rounds, size = 5, 40
			for round := range rounds {
				var marks []store.Mark
				for k := range size {
					m := a.mark(round, "/", k)
					if k%2 == 0 {
						m = a.timed(epoch, round, "/", k)
					}
					if k%3 == 0 {
						m.Scope = other
					}
					marks = append(marks, m)
				}
				// With one of their marks held, each batch gets as far as that one and holds
				// what comes before it in its own order.
				gate := b.begin(store.New, marks[rand.IntN(size)])
				backwards, shuffled := slices.Clone(marks), slices.Clone(marks)
				slices.Reverse(backwards)
				rand.Shuffle(size, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				var handled []<-chan handling
				for i, batch := range [][]store.Mark{marks, backwards, shuffled} {
					s := []*marksStore[TTx]{a, b}[i%2]
					handled = append(handled, begun(e, func(ctx context.Context) handling {
						return s.handle(ctx, "", batch...)
					}))
				}
				c.awaitBlocked(len(handled))
				gate.rollback()
				fresh := 0
				for _, ch := range handled {
					h := within(e, "handling", func(context.Context) handling { return <-ch })
					e.check(fmt.Sprintf("round %d", round), h.err)
					fresh += h.fresh
				}
				if fresh != size {
					e.failf("round %d: %d of %d marks were New", round, fresh, size)
				}
			}
		},
	}}
}

// handling is what came of one message or batch.
type handling struct {
	fresh int
	err   error
}

// handle does what a guard does: mark, write an effect for what is New, commit. It
// runs beside the case and so reports instead of failing.
func (s *marksStore[TTx]) handle(ctx context.Context, effect string, marks ...store.Mark) handling {
	o := s.try(ctx, marks)
	if o.err != nil {
		return handling{0, fmt.Errorf("begin, fault %q: %w", s.Marks.Fault(o.err), o.err)}
	}
	defer func() { _ = o.unit.Rollback(ctx) }()
	fresh := 0
	for _, st := range o.statuses {
		if st == store.New {
			fresh++
		}
	}
	if fresh == 0 {
		return handling{}
	}
	if effect != "" {
		if err := s.Effect(ctx, o.unit.Tx(), effect); err != nil {
			return handling{0, fmt.Errorf("effect: %w", err)}
		}
	}
	if end, err := o.unit.Commit(ctx); end != store.Committed || err != nil {
		return handling{0, fmt.Errorf("commit: end %q: %w", end, err)}
	}
	return handling{fresh, nil}
}
