package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/semel-dev/semel/store"
)

var errUndo = errors.New("the exam asks for a rollback")

// txMarkerRules are about marks inside of a transaction that the store did not begin.
func txMarkerRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"TxMarker commits with the caller",
		"MarkTx marks in the caller's transaction: they are committed together and rolled back together.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			marks := []store.Mark{s.mark("m"), s.timed(epoch, "m"), s.mark("m")}
			fresh := []store.Status{store.New, store.New, store.Seen}
			act := func(want []store.Status, end error) {
				err := s.inTx(func(ctx context.Context, tx TTx) error {
					if err := s.markTx(ctx, tx, marks, want); err != nil {
						return err
					}
					return errors.Join(c.Effect(ctx, tx, "e"), end)
				})
				if !errors.Is(err, end) {
					s.failf("MarkTx: %v", err)
				}
			}
			act(fresh, errUndo)
			s.effects("e", 0)
			act(fresh, nil)
			s.effects("e", 1)
			act(slices.Repeat([]store.Status{store.Seen}, 3), nil)
			s.beginAll(marks, slices.Repeat([]store.Status{store.Seen}, 3)).rollback()
		},
	}, {
		"TxMarker knows its own marks",
		"A mark that the transaction itself holds is Seen, and nobody waits for himself.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			tx := u.Tx()
			s.check("MarkTx", within(e, "MarkTx", func(ctx context.Context) error {
				return s.markTx(ctx, tx, []store.Mark{s.mark("m"), s.mark("n")}, []store.Status{store.Seen, store.New})
			}))
			u.commit()
			s.beginAll([]store.Mark{s.mark("m"), s.mark("n")}, []store.Status{store.Seen, store.Seen}).rollback()
		},
	}, {
		"TxMarker waits for a rival",
		"MarkTx waits for a rival as Begin does.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			done := begun(e, func(context.Context) error {
				return b.inTx(func(ctx context.Context, tx TTx) error {
					return b.markTx(ctx, tx, []store.Mark{b.mark("m")}, []store.Status{store.Seen})
				})
			})
			c.awaitBlocked(1)
			select {
			case err := <-done:
				e.failf("MarkTx did not wait: error %v", err)
			default:
			}
			u.commit()
			e.check("MarkTx", within(e, "MarkTx", func(context.Context) error { return <-done }))
		},
	}}
}

// txMarkerBusyRules have a short lock limit.
func txMarkerBusyRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"TxMarker past the lock limit",
		"MarkTx whose rival stays beyond the lock limit is FaultBusy.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			err := b.inTx(func(ctx context.Context, tx TTx) error {
				return b.markTx(ctx, tx, []store.Mark{b.mark("m")}, []store.Status{store.Seen})
			})
			b.busy("MarkTx", err)
			u.commit()
		},
	}}
}

func (s *marksStore[TTx]) inTx(fn func(ctx context.Context, tx TTx) error) error {
	if s.InTx == nil {
		return errors.New("the harness has neither InTx nor NoTxMarker")
	}
	return within(s.exam, "transaction", func(ctx context.Context) error {
		return s.InTx(ctx, func(tx TTx) error { return fn(ctx, tx) })
	})
}

// markTx marks and compares. It runs beside the case and so reports instead of failing.
func (s *marksStore[TTx]) markTx(ctx context.Context, tx TTx, marks []store.Mark, want []store.Status) error {
	m, ok := s.Marks.(store.TxMarker[TTx])
	if !ok {
		return errors.New("the store does not implement TxMarker and the harness does not declare NoTxMarker")
	}
	got, err := m.MarkTx(ctx, tx, slices.Clone(marks))
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return &wrongStatuses{got, want}
	}
	return nil
}

type wrongStatuses struct{ got, want []store.Status }

func (e *wrongStatuses) Error() string {
	return fmt.Sprintf("statuses %v where %v is right", e.got, e.want)
}
