package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// DeadLettersHarness hands over a store of dead letters.
type DeadLettersHarness[TTx any] struct {
	// New makes an empty place that nobody else uses, for the length of one case. A rival in it
	// is waited for no longer than lockWait. Up to five transactions are open at a time.
	New func(t *testing.T, lockWait time.Duration) DeadLettersPlace[TTx]

	// LockWait is the lock limit of the cases that sit it out, 200 ms when zero.
	LockWait time.Duration

	// NoReviver declares that the store does not implement [store.Reviver].
	NoReviver bool

	// Conflicts declares that a rival may get FaultConflict instead of waiting, as above READ
	// COMMITTED. Only the cases that try again, as a guard does, are run then.
	Conflicts bool

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// DeadLettersPlace is one store, which may be one value or several on the same data.
type DeadLettersPlace[TTx any] struct {
	Marks   store.Marks[TTx]
	Burier  store.Burier[TTx]
	Letters store.DeadLetters

	// Reviver may be nil with NoReviver.
	Reviver store.Reviver[TTx]

	// Effect, Effects and AwaitBlocked are as in [MarksPlace]; the first two may be nil with
	// NoReviver.
	Effect       func(ctx context.Context, tx TTx, name string) error
	Effects      func(name string) int
	AwaitBlocked func(n int)
}

// TestDeadLetters holds a store to the contracts of [store.Burier], [store.DeadLetters] and
// [store.Reviver], and to what [store.Blocked] means. Each case interns its consumers before it
// buries, as a guard does.
func TestDeadLetters[TTx any](t *testing.T, h DeadLettersHarness[TTx]) {
	t.Helper()
	if h.LockWait == 0 {
		h.LockWait = 200 * time.Millisecond
	}
	open := func(lockWait time.Duration) func(t *testing.T) *lettersCase[TTx] {
		return func(t *testing.T) *lettersCase[TTx] {
			return &lettersCase[TTx]{DeadLettersPlace: h.New(t, lockWait)}
		}
	}
	patient, impatient := open(2*patience), open(h.LockWait)
	if h.Conflicts {
		examine(t, parkCrowdRules[TTx](), h.Around, patient)
		t.Run("others", func(t *testing.T) { t.Skip("the harness declares Conflicts") })
		return
	}
	rules := slices.Concat(buryRules[TTx](), letterRules[TTx](), listRules[TTx](), failRules[TTx](), parkRules[TTx](), discardRules[TTx]())
	examine(t, rules, h.Around, patient)
	if h.NoReviver {
		t.Run("Reviver", func(t *testing.T) { t.Skip("the harness declares NoReviver") })
		return
	}
	examine(t, slices.Concat(reviveRules[TTx](), reviveRivalRules[TTx](), parkCrowdRules[TTx]()), h.Around, patient)
	examine(t, reviveBusyRules[TTx](), h.Around, impatient)
}

type lettersRule[TTx any] = rule[*lettersCase[TTx]]

// buryRules are about the transaction.
func buryRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"a letter commits with its mark",
		"A dead letter and its message's mark are committed together, and before that nobody sees the letter.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.open(store.New, "m")
			c.bury(u, c.letter("m"))
			c.listed("", 0, 10)
			u.commit()
			c.listed("", 0, 10, "m")
			c.open(store.Seen, "m").rollback()
		},
	}, {
		"a letter is rolled back with its mark",
		"A rollback undoes the dead letter and the mark together.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.open(store.New, "m")
			c.bury(u, c.letter("m"))
			u.rollback()
			c.listed("", 0, 10)
			c.open(store.New, "m").rollback()
		},
	}, {
		"several letters in one transaction",
		"A transaction buries as many letters as it likes, and they are listed in the order in which they were buried.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.open(store.New, "a")
			for _, name := range []string{"c", "a", "b"} {
				c.bury(u, c.letter(name))
			}
			u.commit()
			c.listed("", 0, 10, "c", "a", "b")
		},
	}}
}
