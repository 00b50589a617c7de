package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// printRules are about fingerprints.
func printRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"a mark with another fingerprint",
		"A mark that is there with another fingerprint is Mismatched, in every store on the same data; with the same one it is Seen.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			for _, m := range []store.Mark{a.mark("m"), a.timed(epoch, "m")} {
				a.begin(store.New, printed(m, "one")).rollback()
				a.begin(store.New, printed(m, "two")).commit()
				for _, s := range []*marksStore[TTx]{a, b} {
					u := s.begin(store.Mismatched, printed(m, "one"))
					u.next(store.Seen, printed(m, "two"))
					u.next(store.Mismatched, printed(m, "one"))
					u.commit()
				}
				other := printed(m, "one")
				other.Scope = a.scopeOf("another consumer")
				b.begin(store.New, other).rollback()
			}
		},
	}, {
		"a mark without a fingerprint",
		"A missing fingerprint matches every other, whichever of the two marks has none.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			with, without := s.mark("with"), s.mark("without")
			s.beginAll([]store.Mark{printed(with, "one"), without}, []store.Status{store.New, store.New}).commit()
			for range 2 {
				s.begin(store.Seen, with).commit()
				s.begin(store.Seen, printed(without, "one")).commit()
				s.begin(store.Seen, printed(without, "two")).commit()
			}
			s.begin(store.Mismatched, printed(with, "two")).rollback()
		},
	}, {
		"fingerprints of equal marks",
		"Equal marks in one call are compared with what is there, or where the first of them is set, with that one.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			for _, m := range []store.Mark{s.mark("m"), s.timed(epoch, "m")} {
				one, two := printed(m, "one"), printed(m, "two")
				for _, twins := range []struct {
					marks []store.Mark
					want  []store.Status
				}{
					{[]store.Mark{one, two, one, m}, []store.Status{store.New, store.Mismatched, store.Seen, store.Seen}},
					{[]store.Mark{m, two, one}, []store.Status{store.New, store.Seen, store.Seen}},
				} {
					s.beginAll(twins.marks, twins.want).rollback()
				}
				s.begin(store.New, one).commit()
				for _, twins := range []struct {
					marks []store.Mark
					want  []store.Status
				}{
					{[]store.Mark{one, two, m}, []store.Status{store.Seen, store.Mismatched, store.Seen}},
					{[]store.Mark{two, two, one}, []store.Status{store.Mismatched, store.Mismatched, store.Seen}},
					{[]store.Mark{m, two, one}, []store.Status{store.Seen, store.Mismatched, store.Seen}},
					{[]store.Mark{s.mark("new"), m, two}, []store.Status{store.New, store.Seen, store.Mismatched}},
				} {
					s.beginAll(twins.marks, twins.want).rollback()
				}
			}
		},
	}, {
		"fingerprint of a rival",
		"A rival with another fingerprint waits as any other does: Mismatched after a commit, New after a rollback.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, printed(a.mark("m"), "one"))
			rival := b.rival(printed(b.mark("m"), "two"))
			b.blocked(1, rival)
			u.rollback()
			u = b.accept("Begin of the rival", b.receive(rival), []store.Status{store.New})
			rival = a.rival(printed(a.mark("m"), "one"))
			a.blocked(1, rival)
			u.commit()
			a.accept("Begin of the rival", a.receive(rival), []store.Status{store.Mismatched}).rollback()
			b.begin(store.Seen, printed(b.mark("m"), "two")).rollback()
		},
	}, {
		"fingerprints in a large batch",
		"In a batch each mark has its own status, whatever fingerprints the others have or lack.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			other := s.scopeOf("another consumer")
			var first, all []store.Mark
			var want []store.Status
			for i := range 500 {
				m := s.mark("m", i)
				if i%2 == 0 {
					m = s.timed(epoch.Add(time.Duration(500-i)*time.Hour), "m", i)
				}
				if i%5 == 0 {
					m.Scope = other
				}
				switch i % 7 {
				case 0: // known, the same
					first, want = append(first, printed(m, "one")), append(want, store.Seen)
					m = printed(m, "one")
				case 1: // known, another
					first, want = append(first, printed(m, "one")), append(want, store.Mismatched)
					m = printed(m, "two")
				case 2: // known, without
					first, want = append(first, m), append(want, store.Seen)
					m = printed(m, "two")
				case 3: // known, and now without
					first, want = append(first, printed(m, "one")), append(want, store.Seen)
				case 4:
					want = append(want, store.New)
				default:
					m = printed(m, "one")
					want = append(want, store.New)
				}
				all = append(all, m)
			}
			s.beginAll(first, slices.Repeat([]store.Status{store.New}, len(first))).commit()
			s.beginAll(all, want).commit()
			for i := range want {
				if want[i] == store.New {
					want[i] = store.Seen
				}
			}
			s.beginAll(all, want).rollback()
		},
	}}
}

// txPrintRules are about fingerprints in a transaction that the store did not begin.
func txPrintRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"TxMarker compares fingerprints",
		"MarkTx compares fingerprints as Begin does, with what is committed and with what the transaction holds.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			one, two := printed(s.mark("m"), "one"), printed(s.mark("m"), "two")
			s.begin(store.New, printed(s.mark("old"), "one")).commit()
			err := s.inTx(func(ctx context.Context, tx TTx) error {
				return errors.Join(
					s.markTx(ctx, tx, []store.Mark{one, two}, []store.Status{store.New, store.Mismatched}),
					s.markTx(ctx, tx, []store.Mark{two}, []store.Status{store.Mismatched}),
					s.markTx(ctx, tx, []store.Mark{one, s.mark("m"), printed(s.mark("old"), "two"), s.mark("old")},
						[]store.Status{store.Seen, store.Seen, store.Mismatched, store.Seen}),
				)
			})
			e.check("MarkTx", err)
			s.begin(store.Mismatched, two).rollback()
		},
	}}
}

// printed is the mark with a fingerprint.
func printed(m store.Mark, content string) store.Mark {
	m.Fingerprint = store.OrderID([]byte(content))
	return m
}
