package storetest

import (
	"context"
	"errors"

	"github.com/semel-dev/semel/store"
)

// positionActRules are about everything else that opens a transaction or marks in one.
func positionActRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"a mark without a place",
		"Where positions are kept a mark without a place is refused: Begin leaves nothing open, and Next has ended the unit and says how.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			for range 20 {
				o := within(e, "Begin", func(ctx context.Context) opened[TTx] {
					return s.try(ctx, []store.Mark{s.at("log", 0, 0), s.mark("without")})
				})
				s.fault("Begin", o.err, store.FaultHandler)
			}
			u := s.begin(store.New, s.at("log", 0, 0))
			u.effect("e")
			n := u.tryNext(s.mark("without"))
			if n.err == nil {
				e.failf("Next: end %q and no error", n.end)
			}
			switch n.end {
			case store.Committed:
				s.effects("e", 1)
				s.applied("log", 0, s.upTo("log", 0, 0))
			case store.RolledBack:
				s.effects("e", 0)
				s.applied("log", 0, store.Applied{Offset: -1})
			default:
				e.failf("Next: end %q", n.end)
			}
			u.refuses(s.at("log", 1, 0))
		},
	}, {
		"MarkTx of a view",
		"A view of a store that has MarkTx decides there as in Begin: by the position, which it moves in the caller's transaction.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			if _, ok := s.Marks.(store.TxMarker[TTx]); !ok || c.InTx == nil {
				e.Skip("the view has no MarkTx")
			}
			act := func(end error, want ...store.Status) {
				e.Helper()
				err := s.inTx(func(ctx context.Context, tx TTx) error {
					return errors.Join(s.markTx(ctx, tx, []store.Mark{s.at("log", 0, 3), s.at("log", 0, 4)}, want), end)
				})
				if !errors.Is(err, end) {
					e.failf("MarkTx: %v", err)
				}
			}
			s.begin(store.New, s.at("log", 0, 3)).commit()
			act(errUndo, store.Seen, store.New)
			s.applied("log", 0, s.upTo("log", 0, 3))
			act(nil, store.Seen, store.New)
			s.applied("log", 0, s.upTo("log", 0, 4))
			act(nil, store.Seen, store.Seen)
			s.begin(store.Seen, s.at("log", 0, 4)).commit()
		},
	}, {
		"Revive of a view",
		"A unit that a view's Revive has opened decides in Next as one of its Begin does.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			reviver, ok := s.Marks.(store.Reviver[TTx])
			letters, also := s.Marks.(store.DeadLetters)
			if !ok || !also {
				e.Skip("the view has no Revive, or no letters")
			}
			u := s.begin(store.New, s.at("log", 0, 3))
			u.buryAs(store.Dead, "x")
			u.commit()
			r := within(e, "Revive", func(ctx context.Context) revived[TTx] {
				all, err := letters.ListDead(ctx, store.LetterFilter{}, 0, 1)
				if err != nil {
					return revived[TTx]{err: err}
				}
				if len(all) == 0 {
					return revived[TTx]{err: errors.New("the letter is not there")}
				}
				u, d, err := reviver.Revive(ctx, all[0].ID)
				return revived[TTx]{u, d, err}
			})
			e.check("Revive", r.err)
			s.tidyUp(r.unit)
			u = &marksUnit[TTx]{s.marksStore, r.unit}
			u.effect("e")
			u.next(store.Seen, s.at("log", 0, 2))
			u.next(store.New, s.at("log", 0, 4))
			u.commit()
			s.effects("e", 1)
			s.applied("log", 0, s.upTo("log", 0, 4))
		},
	}}
}
