package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// MarksHarness hands over a store of marks.
type MarksHarness[TTx any] struct {
	// New makes an empty place that nobody else uses, for the length of one case. A rival in
	// it is waited for no longer than lockWait. Up to four transactions are open at a time,
	// and one case has 50 callers, who may have to wait for a connection.
	New func(t *testing.T, lockWait time.Duration) MarksPlace[TTx]

	// LockWait is the lock limit of the cases that sit it out, 200 ms when zero.
	LockWait time.Duration

	// NoTxMarker declares that the store does not implement [store.TxMarker].
	NoTxMarker bool

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// MarksPlace is where the marks of one case are kept.
type MarksPlace[TTx any] struct {
	// Open opens one more store on the place, as another process would. The harness
	// closes it when the case ends.
	Open func() store.Marks[TTx]

	// Effect writes one more effect under a name, as a handler would: with the
	// transaction and nothing else. Where TTx gives no results, such as a batch that is
	// sent at the commit, it queues the write and returns nil.
	Effect func(ctx context.Context, tx TTx, name string) error

	// Effects counts the committed effects under a name, outside of any transaction.
	Effects func(name string) int

	// Spoil makes a statement fail in the transaction, and swallows its error as a careless handler
	// does. Nil where TTx cannot fail before the commit.
	Spoil func(ctx context.Context, tx TTx)

	// InTx runs fn in a transaction that the store knows nothing of, committed when fn
	// returns nil. It may be nil with NoTxMarker.
	InTx func(ctx context.Context, fn func(tx TTx) error) error

	// AwaitBlocked returns when n calls wait for a rival inside of the store. Where it is
	// nil the cases wait a moment instead; in a synctest bubble that is exact.
	AwaitBlocked func(n int)
}

// TestMarks holds a store to the contracts of [store.Marks], [store.Unit] and
// [store.TxMarker].
func TestMarks[TTx any](t *testing.T, h MarksHarness[TTx]) {
	t.Helper()
	if h.LockWait == 0 {
		h.LockWait = 200 * time.Millisecond
	}
	rules := slices.Concat(
		markRules[TTx](),
		scopeRules[TTx](),
		keyRules[TTx](),
		rivalRules[TTx](),
		unitRules[TTx](),
		contextRules[TTx](),
		crowdRules[TTx](),
		printRules[TTx](),
	)
	patient := func(t *testing.T) *marksCase[TTx] { return h.open(t, 2*patience) }
	examine(t, rules, h.Around, patient)

	impatient := func(t *testing.T) *marksCase[TTx] { return h.open(t, h.LockWait) }
	examine(t, busyRules[TTx](), h.Around, impatient)

	if h.NoTxMarker {
		t.Run("TxMarker", func(t *testing.T) { t.Skip("the harness declares NoTxMarker") })
		return
	}
	examine(t, slices.Concat(txMarkerRules[TTx](), txPrintRules[TTx]()), h.Around, patient)
	examine(t, txMarkerBusyRules[TTx](), h.Around, impatient)
}

func (h MarksHarness[TTx]) open(t *testing.T, lockWait time.Duration) *marksCase[TTx] {
	return &marksCase[TTx]{MarksPlace: h.New(t, lockWait)}
}

type marksRule[TTx any] = rule[*marksCase[TTx]]

// markRules are about one transaction after another.
func markRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"new then seen",
		"A mark is New until a transaction commits it, and Seen from then on, in every store on the same data.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			u.commit()
			a.begin(store.Seen, a.mark("m")).rollback()
			b.begin(store.Seen, b.mark("m")).commit()
			b.begin(store.Seen, b.mark("m")).rollback()
		},
	}, {
		"order of statuses",
		"Statuses stand in the order of the marks, however many there are.",
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
				all = append(all, m)
				if i%3 == 0 {
					first = append(first, m)
					want = append(want, store.Seen)
				} else {
					want = append(want, store.New)
				}
			}
			s.beginAll(first, slices.Repeat([]store.Status{store.New}, len(first))).commit()
			s.beginAll(all, want).commit()
			s.beginAll(all, slices.Repeat([]store.Status{store.Seen}, len(all))).rollback()
		},
	}, {
		"equal marks in one call",
		"Of equal marks in one call the first may be New and the others are Seen.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			z, a := s.mark("z"), s.timed(epoch, "a")
			marks := []store.Mark{z, a, z, a, a, z}
			s.beginAll(marks, []store.Status{store.New, store.New, store.Seen, store.Seen, store.Seen, store.Seen}).commit()
			s.beginAll(marks, slices.Repeat([]store.Status{store.Seen}, len(marks))).rollback()
		},
	}, {
		"no marks",
		"Begin without marks opens a transaction all the same.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.beginAll(nil, nil)
			u.effect("e")
			u.commit()
			s.effects("e", 1)
		},
	}, {
		"effect commits with the mark",
		"The effect and the mark are committed together, and before that nobody sees either.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			u.effect("e")
			s.effects("e", 0)
			u.commit()
			s.effects("e", 1)
			s.begin(store.Seen, s.mark("m")).rollback()
		},
	}, {
		"rollback undoes both",
		"A rollback undoes the effect and the mark together.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			u := s.begin(store.New, s.mark("m"))
			u.effect("e")
			u.rollback()
			s.effects("e", 0)
			s.begin(store.New, s.mark("m")).rollback()
		},
	}, {
		"rollback spares what was seen",
		"A rollback takes back the marks that were New and leaves those that were Seen.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			marks := []store.Mark{s.mark("new"), s.mark("seen")}
			s.begin(store.New, marks[1]).commit()
			want := []store.Status{store.New, store.Seen}
			s.beginAll(marks, want).rollback()
			s.beginAll(marks, want).rollback()
		},
	}}
}
