package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestChainCommitsAndBeginsInOneBreath(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, add)
	wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b", "c")), "applied applied applied")
	wantRecord(t, b, "begin [new]", "next: committed [new]", "next: committed [new]", "commit: committed")
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "c": 1})
	b.idle(t)

	b.forget()
	// What was done before, and what comes twice.
	wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "d", "d", "b", "e")), "duplicate applied duplicate duplicate applied")
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "d": 1, "e": 1})
	b.idle(t)
	b.forget()
	wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b", "a")), "duplicate duplicate duplicate")
	b.idle(t)
}

func TestChainStopsBehindTheFirstFailure(t *testing.T) {
	t.Parallel()
	b := newBent()
	poison := errors.New("poison")
	results := guardOn(t, b, except(map[string]error{"c": poison})).ProcessEach(t.Context(), messages("a", "b", "c", "d"))
	wantOutcomes(t, results, "applied applied failed(handler)")
	if !errors.Is(results[2].Err, poison) {
		t.Errorf("the error is %v", results[2].Err)
	}
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "c": 0, "d": 0})
	b.idle(t)
	wantOutcomes(t, guardOn(t, b, add).ProcessEach(t.Context(), messages("a", "b", "c", "d")), "duplicate duplicate applied applied")
}

// The mark of the following message travels with the COMMIT of the one before; what stands in
// its way is its own affair.
func TestChainWhoseNextCannotBegin(t *testing.T) {
	t.Parallel()
	for fault, want := range map[store.Fault]string{
		store.FaultBusy:     "applied failed(busy)",
		store.FaultOutage:   "applied failed(outage)",
		store.FaultConflict: "applied applied applied", // tried again
	} {
		b := newBent()
		b.next = func(n int) error {
			if n == 1 {
				return &faulty{fault}
			}
			return nil
		}
		g := guardOn(t, b, add)
		wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b", "c")), want)
		wantEffects(t, b, map[string]int64{"a": 1})
		b.idle(t)

		// Behind a duplicate as well.
		b = newBent()
		g = guardOn(t, b, add)
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Applied, 0)
		b.forget()
		b.next = func(n int) error {
			if n == 1 {
				return &faulty{fault}
			}
			return nil
		}
		wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b", "c")), "duplicate"+want[len("applied"):])
		b.idle(t)
	}
}

// A duplicate has written nothing, so however its transaction ends, it is one.
func TestChainWhoseDuplicateCannotEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []store.End{store.RolledBack, store.Unknown} {
		b := newBent()
		g := guardOn(t, b, add)
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Applied, 0)
		b.forget()
		b.commit = func(n int, real func() (store.End, error)) (store.End, error) {
			if n == 1 {
				return end, &faulty{store.FaultOutage}
			}
			return real()
		}
		wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b")), "duplicate applied")
		wantEffects(t, b, map[string]int64{"a": 1, "b": 1})
		b.idle(t)
	}
}

func TestChainWithAMessageThatHasNoKey(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, add)
	wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{message("a"), {}, message("b")}), "applied failed(handler)")
	wantRecord(t, b, "begin [new]", "commit: committed")
	wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{{}, message("b")}), "failed(handler)")
	wantEffects(t, b, map[string]int64{"a": 1, "b": 0})
	b.idle(t)
}

func TestChainWhoseContextEnds(t *testing.T) {
	t.Parallel()
	b := newBent()
	ctx, cancel := context.WithCancel(t.Context())
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if idOf(m) == "b" {
			defer cancel()
		}
		return add(ctx, tx, m)
	})
	// The one that was running is committed alone; nobody begins for the one behind it.
	wantOutcomes(t, g.ProcessEach(ctx, messages("a", "b", "c")), "applied applied failed(canceled)")
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "c": 0})
	if want := "commit: committed"; b.record[2] != want {
		t.Errorf("what happened: %q, want %q third", b.record, want)
	}
	b.idle(t)
}

// Whoever gives up while the mark is being set has not waited for a handler.
func TestContextThatEndsWithTheMark(t *testing.T) {
	t.Parallel()
	for how, process := range map[string]func(g *dedup.TxGuard[*memstore.Tx], ctx context.Context) []dedup.Result{
		"each": func(g *dedup.TxGuard[*memstore.Tx], ctx context.Context) []dedup.Result {
			return g.ProcessEach(ctx, messages("a", "b"))
		},
		"batch": func(g *dedup.TxGuard[*memstore.Tx], ctx context.Context) []dedup.Result {
			return g.ProcessBatch(ctx, messages("a", "b"))
		},
	} {
		b := newBent()
		ctx, cancel := context.WithCancel(t.Context())
		b.begun = cancel
		g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			t.Errorf("%s: the handler ran", how)
			return nil
		})
		wantOutcomes(t, process(g, ctx), "failed(canceled)")
		b.idle(t)
	}
}

// A conflict at the COMMIT of a message in the middle runs that message again and no other.
func TestChainRunsAConflictAgain(t *testing.T) {
	t.Parallel()
	b := newBent()
	b.commit = func(n int, real func() (store.End, error)) (store.End, error) {
		if n == 2 {
			return store.RolledBack, &faulty{store.FaultConflict}
		}
		return real()
	}
	runs := map[string]int{}
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		runs[idOf(m)]++
		return add(ctx, tx, m)
	})
	wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b", "c")), "applied applied applied")
	if runs["a"] != 1 || runs["b"] != 2 || runs["c"] != 1 {
		t.Errorf("the runs are %v", runs)
	}
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "c": 1})
	b.idle(t)
}
