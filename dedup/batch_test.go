package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("m", i)
	}
	return ids
}

func TestBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := newBent()
	var order []string
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		order = append(order, idOf(m))
		return add(ctx, tx, m)
	})
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages("c", "a", "c", "b", "a")), "applied applied duplicate applied duplicate")
	if !slices.Equal(order, []string{"c", "a", "b"}) {
		t.Errorf("the handlers ran for %v", order)
	}
	wantRecord(t, b, "begin [new new seen new seen]", "commit: committed")
	b.forget()
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages("a", "d", "b")), "duplicate applied duplicate")
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	b.forget()
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages("a", "d", "b")), "duplicate duplicate duplicate")
	wantRecord(t, b, "begin [seen seen seen]", "rollback")
	b.idle(t)
}

// One bad message takes no other with it, wherever it stands, and the messages behind it
// are untouched.
func TestPoisonInABatch(t *testing.T) {
	t.Parallel()
	const n = 9
	for at := range n {
		for _, together := range []bool{false, true} {
			b, ids := newBent(), numbered(n)
			poison := errors.New("poison")
			runs := map[string]int{}
			h := func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
				runs[idOf(m)]++
				return except(map[string]error{ids[at]: poison})(ctx, tx, m)
			}
			g := guardOn(t, b, h)
			if together {
				g = batchGuard(t, b, h)
			}
			results := g.ProcessBatch(t.Context(), messages(ids...))
			wantOutcomes(t, results, strings.Repeat("applied ", at)+"failed(handler)")
			if !errors.Is(results[at].Err, poison) {
				t.Errorf("the error is %v", results[at].Err)
			}
			for i, id := range ids {
				want := int64(0)
				if i < at {
					want = 1
				}
				wantEffects(t, b, map[string]int64{id: want})
			}
			b.idle(t)
			if !together && runs[ids[at]] != 2 {
				t.Errorf("the bad one ran %d times: in the batch and alone is twice", runs[ids[at]])
			}
			// The consumer gives the bad one up and goes on behind it.
			wantResult(t, g.Bury(t.Context(), message(ids[at]), poison), dedup.Buried, 0)
			wantOutcomes(t, g.ProcessBatch(t.Context(), messages(ids[at:]...)), "duplicate"+strings.Repeat(" applied", n-at-1))
			for i, id := range ids {
				if i != at {
					wantEffects(t, b, map[string]int64{id: 1})
				}
			}
		}
	}
}

// Where others were done before, the bad one is found all the same at once.
func TestPoisonBehindDuplicates(t *testing.T) {
	t.Parallel()
	b, runs := newBent(), map[string]int{}
	wantOutcomes(t, guardOn(t, b, add).ProcessBatch(t.Context(), messages("a", "b")), "applied applied")
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		runs[idOf(m)]++
		return except(map[string]error{"d": errors.New("poison")})(ctx, tx, m)
	})
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages("a", "b", "c", "c", "d", "e")), "duplicate duplicate applied duplicate failed(handler)")
	if runs["c"] != 2 || runs["d"] != 2 || runs["e"] != 0 {
		t.Errorf("the runs are %v", runs)
	}
	b.idle(t)
}

func batchGuard(t *testing.T, s store.Marks[*memstore.Tx], h txHandler) *dedup.TxGuard[*memstore.Tx] {
	t.Helper()
	g, err := dedup.NewTxBatch(s, "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, ms []dedup.Message) error {
		if len(ms) == 0 {
			t.Error("the handler was called with no message")
		}
		for _, m := range ms {
			if err := h(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A message may fail only because of what another one in its batch has done. It is judged
// alone, after that one.
func TestMessageThatFailsOnlyBesideAnother(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		// The balance may not pass one in one transaction.
		if n, err := tx.Add(ctx, "in this transaction", 1); err != nil || n > 1 {
			return errors.Join(errors.New("too much"), err)
		}
		if err := tx.Put(ctx, "in this transaction", 0); idOf(m) == "b" && err != nil {
			return err
		}
		if idOf(m) == "a" {
			return errors.Join(tx.Put(ctx, "in this transaction", 1), add(ctx, tx, m))
		}
		return add(ctx, tx, m)
	})
	results := g.ProcessBatch(t.Context(), messages("a", "b"))
	wantOutcomes(t, results, "applied failed(handler)")
	b.idle(t)
}

func TestBatchWithAMessageThatHasNoKey(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, add)
	wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{message("a"), message("b"), {}, message("c")}), "applied applied failed(handler)")
	wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{{}, message("c")}), "failed(handler)")
	wantEffects(t, b, map[string]int64{"a": 1, "b": 1, "c": 0})
	// Where one before it fails, the one without a key has no result yet.
	g = guardOn(t, b, except(map[string]error{"d": errors.New("poison")}))
	wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{message("a"), message("d"), {}}), "duplicate failed(handler)")
	b.idle(t)
}

// What one rival holds stops the batch there and not before.
func TestBusyMarkInABatch(t *testing.T) {
	t.Parallel()
	b := newBent()
	b.Store = memstore.New(memstore.WithLockWait(20e6))
	scope, err := b.Scope(t.Context(), "consumer", store.Forever)
	if err != nil {
		t.Fatal(err)
	}
	rival, _, err := b.Store.Begin(t.Context(), []store.Mark{{Scope: scope, Key: store.DigestKey([]byte("m5"))}})
	if err != nil {
		t.Fatal(err)
	}
	g := guardOn(t, b, add)
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages(numbered(8)...)), strings.Repeat("applied ", 5)+"failed(busy)")
	_ = rival.Rollback(t.Context())
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages(numbered(8)[5:]...)), "applied applied applied")
	b.idle(t)
}

// An outage is no message's fault, so nobody looks for one.
func TestOutageDoesNotDivideABatch(t *testing.T) {
	t.Parallel()
	for _, fault := range []store.Fault{store.FaultOutage, store.FaultSetup} {
		b := newBent()
		b.commit = func(int, func() (store.End, error)) (store.End, error) { return store.RolledBack, &faulty{fault} }
		wantOutcomes(t, guardOn(t, b, add).ProcessBatch(t.Context(), messages(numbered(8)...)), "failed("+fault.String()+")")
		if b.begins != 1 {
			t.Errorf("%d transactions were begun for one batch", b.begins)
		}
	}
}

// A handler that swallows an error spoils the whole transaction and nobody knows which it
// was; it is found by halving.
func TestSwallowedErrorInABatch(t *testing.T) {
	t.Parallel()
	b, spoiled := newBent(), false
	b.commit = func(_ int, real func() (store.End, error)) (store.End, error) {
		if spoiled {
			spoiled = false
			return store.RolledBack, &faulty{store.FaultHandler}
		}
		return real()
	}
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		spoiled = spoiled || idOf(m) == "m3"
		return add(ctx, tx, m)
	})
	results := g.ProcessBatch(t.Context(), messages(numbered(6)...))
	wantOutcomes(t, results, "applied applied applied failed(handler)")
	for i, id := range numbered(6) {
		wantEffects(t, b, map[string]int64{id: map[bool]int64{true: 1}[i < 3]})
	}
	b.idle(t)
}

// Whichever way messages are handed in, however often and in whatever order, each has one effect.
func TestEveryWayHasOneEffect(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	ids := numbered(7)
	for _, g := range []*dedup.TxGuard[*memstore.Tx]{guardOn(t, s, add), batchGuard(t, s, add)} {
		for range 2 {
			g.ProcessEach(t.Context(), messages(ids[2:5]...))
			g.ProcessBatch(t.Context(), messages(append(ids, ids...)...))
			slices.Reverse(ids)
			g.Process(t.Context(), message(ids[0]))
			g.ProcessBatch(t.Context(), messages(ids...))
		}
	}
	for _, id := range ids {
		wantEffects(t, s, map[string]int64{id: 1})
	}
}
