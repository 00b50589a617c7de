package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// AttemptsHarness hands over a store that counts attempts.
type AttemptsHarness struct {
	// New makes an empty place that nobody else uses, for the length of one case. One case has 50
	// callers, who may have to wait for a connection.
	New func(t *testing.T) AttemptsPlace

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// AttemptsPlace is where the counts of one case are kept.
type AttemptsPlace struct {
	// Open opens one more store on the place, as another process would. The harness
	// closes it when the case ends.
	Open func() AttemptsStore
}

// AttemptsStore is [store.Attempts] and how a scope is made.
type AttemptsStore interface {
	store.Attempts
	Scope(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error)
}

// TestAttempts holds a store to the contract of [store.Attempts].
func TestAttempts(t *testing.T, h AttemptsHarness) {
	t.Helper()
	examine(t, slices.Concat(countRules(), tenureRules()), h.Around, func(t *testing.T) *attemptsCase {
		return &attemptsCase{AttemptsPlace: h.New(t)}
	})
}

type attemptsCase struct{ AttemptsPlace }

type attemptsRule = rule[*attemptsCase]
