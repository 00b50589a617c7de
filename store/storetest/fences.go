package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// FencesHarness hands over a view of a store that keeps positions.
type FencesHarness[TTx any] struct {
	// New is as in [MarksHarness]. Every store that the place opens implements [store.Fences]. Of
	// the place Open, Effect, Effects and AwaitBlocked are used, and InTx where the view has MarkTx.
	New func(t *testing.T, lockWait time.Duration) MarksPlace[TTx]

	// LockWait is the lock limit of the cases that sit it out, 200 ms when zero.
	LockWait time.Duration

	// Keys declares that the view keeps keys beside positions.
	Keys bool

	// NoBurier declares that the view does not implement [store.Burier].
	NoBurier bool

	// Conflicts declares that a rival may get FaultConflict instead of waiting, as above READ
	// COMMITTED. Only the cases that try again, as a guard does, are run then.
	Conflicts bool

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// TestFences holds a view of a store to the contract of [store.Fences].
func TestFences[TTx any](t *testing.T, h FencesHarness[TTx]) {
	t.Helper()
	if h.LockWait == 0 {
		h.LockWait = 200 * time.Millisecond
	}
	open := func(lockWait time.Duration) func(t *testing.T) *marksCase[TTx] {
		return func(t *testing.T) *marksCase[TTx] { return &marksCase[TTx]{MarksPlace: h.New(t, lockWait)} }
	}
	patient := open(2 * patience)
	examine(t, positionCrowdRules[TTx](), h.Around, patient)
	if h.Conflicts {
		t.Run("others", func(t *testing.T) { t.Skip("the harness declares Conflicts") })
		return
	}
	examine(t, slices.Concat(positionRules[TTx](), restartRules[TTx](), positionLossRules[TTx](), positionRivalRules[TTx](), positionActRules[TTx]()), h.Around, patient)
	examine(t, positionBusyRules[TTx](), h.Around, open(h.LockWait))
	if h.Keys {
		examine(t, positionAndKeyRules[TTx](), h.Around, patient)
	} else {
		examine(t, positionOnlyRules[TTx](), h.Around, patient)
	}
	if h.NoBurier {
		t.Run("Burier", func(t *testing.T) { t.Skip("the harness declares NoBurier") })
		return
	}
	examine(t, positionLetterRules[TTx](), h.Around, patient)
}

// positionRules are about one transaction after another.
func positionRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"position decides",
		"What lies at or before the position is Seen, what lies after it is New and moves the position there at the commit, in every store on the same data.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.openFenced(e), c.openFenced(e)
			b.applied("log", 0, store.Applied{Offset: -1})
			a.begin(store.New, a.at("log", 0, 0)).commit()
			for _, s := range []*fencedStore[TTx]{a, b} {
				s.applied("log", 0, a.upTo("log", 0, 0))
				s.begin(store.Seen, s.at("log", 0, 0)).commit()
			}
			// Compacted logs and transactions leave gaps.
			u := b.begin(store.New, b.at("log", 0, 5))
			u.effect("e")
			a.applied("log", 0, a.upTo("log", 0, 0))
			u.commit()
			a.effects("e", 1)
			for offset := range int64(6) {
				a.begin(store.Seen, a.at("log", 0, offset)).commit()
			}
			a.applied("log", 0, a.upTo("log", 0, 5))
			a.begin(store.New, a.at("log", 0, 6)).rollback()
		},
	}, {
		"positions are separate",
		"Each scope, log and partition has a position of its own.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			s.begin(store.New, s.at("log", 0, 100)).commit()
			other := s.at("log", 0, 7)
			other.Scope = s.scopeOf("another consumer")
			marks := []store.Mark{s.at("log", 1, 7), s.at("Log", 0, 7), s.at("log\x00\xff", 0, 7), s.at("", 0, 7), other, s.at("log", 1<<31-1, 7)}
			s.beginAll(marks, slices.Repeat([]store.Status{store.New}, len(marks))).commit()
			s.beginAll(append(marks, s.at("log", 0, 100)), slices.Repeat([]store.Status{store.Seen}, len(marks)+1)).commit()
			s.applied("log", 0, s.upTo("log", 0, 100))
			s.applied("log", 1, s.upTo("log", 1, 7))
			s.applied("log\x00\xff", 0, s.upTo("log\x00\xff", 0, 7))
			s.applied("log", 2, store.Applied{Offset: -1})
		},
	}, {
		"a batch of positions",
		"In a batch each mark is compared with the position before the call, and of marks with one place the first may be New; the position moves to the last of each partition.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			s.begin(store.New, s.at("log", 1, 49)).commit()
			var marks []store.Mark
			var want []store.Status
			for offset := range int64(100) {
				for p := range 3 {
					marks, want = append(marks, s.at("log", p, offset)), append(want, store.New)
					if p == 1 && offset <= 49 {
						want[len(want)-1] = store.Seen
					}
				}
				if offset%10 == 0 {
					marks, want = append(marks, s.at("log", 0, offset)), append(want, store.Seen)
				}
			}
			s.beginAll(marks, want).rollback()
			s.beginAll(marks, want).commit()
			s.beginAll(marks, slices.Repeat([]store.Status{store.Seen}, len(marks))).commit()
			for p := range 3 {
				s.applied("log", p, s.upTo("log", p, 99))
			}
		},
	}, {
		"a rollback restores the position",
		"A rollback undoes the effect and the move of the position together.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			for range 2 {
				u := s.begin(store.New, s.at("log", 0, 3))
				u.effect("e")
				u.rollback()
				s.applied("log", 0, store.Applied{Offset: -1})
			}
			s.begin(store.New, s.at("log", 0, 2)).commit()
			u := s.begin(store.New, s.at("log", 0, 3))
			u.effect("e")
			u.rollback()
			s.effects("e", 0)
			s.applied("log", 0, s.upTo("log", 0, 2))
			s.begin(store.New, s.at("log", 0, 3)).commit()
		},
	}, {
		"next moves on",
		"Next commits the position with the effect and decides by the position that it has left.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			u := s.begin(store.New, s.at("log", 0, 0))
			for offset := range int64(5) {
				u.effect("e")
				u.next(store.New, s.at("log", 0, offset+1))
				s.effects("e", int(offset)+1)
				s.applied("log", 0, s.upTo("log", 0, offset))
			}
			u.next(store.Seen, s.at("log", 0, 4))
			u.next(store.New, s.at("log", 0, 6))
			u.rollback()
			s.applied("log", 0, s.upTo("log", 0, 5))
		},
	}, {
		"positions beyond 32 bits",
		"Offsets are numbers of 64 bits.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			for _, offset := range []int64{1<<31 - 1, 1 << 31, 1<<32 + 5, 1<<62 + 1, 1<<63 - 1} {
				s.begin(store.New, s.at("log", 0, offset)).commit()
				s.applied("log", 0, s.upTo("log", 0, offset))
				s.begin(store.Seen, s.at("log", 0, offset)).rollback()
			}
			s.begin(store.Seen, s.at("log", 0, 1<<32+4)).rollback()
		},
	}}
}
