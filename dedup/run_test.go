package dedup_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// Ids of what a message causes depend on the message alone: not on the run, the process, the
// batch or the store.
func TestChildIDs(t *testing.T) {
	t.Parallel()
	var ids [][]store.ID
	h := func(fail *bool) txHandler {
		return func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			run := store.RunFrom(ctx)
			first, ok := run.NextID()
			second, _ := run.NextID()
			if !ok {
				t.Error("a run for one message gives no ids")
			}
			ids = append(ids, []store.ID{first, second, m.ChildID("receipt")})
			if *fail {
				*fail = false
				return &faulty{store.FaultConflict}
			}
			return nil
		}
	}
	fails, works := true, false
	guardOn(t, newBent(), h(&fails)).Process(t.Context(), message("payment-42"))                     // twice, because of the conflict
	guardOn(t, newBent(), h(&works)).ProcessEach(t.Context(), messages("payment-42"))                // in another process
	guardOn(t, newBent(), h(&works)).ProcessBatch(t.Context(), messages("payment-41", "payment-42")) // in a batch
	if len(ids) != 5 {
		t.Fatalf("the handler ran %d times", len(ids))
	}
	// Computed elsewhere, as UUIDs version 5 of the first half of SHA-256("payment-42").
	want := []string{"78b81bf2-7a58-590d-af51-e977dfe2a206", "38e7a1bc-d7a8-5d1a-95d3-3e868b79cc4d", "26d812f4-4b01-53ee-aeeb-83604e153991"}
	for run, got := range append(ids[:3:3], ids[4]) {
		for i, id := range got {
			if id.String() != want[i] {
				t.Errorf("run %d: id %d is %s, want %s", run, i, id, want[i])
			}
		}
	}
	if slices.Equal(ids[3], ids[4]) {
		t.Error("another message has the same ids")
	}
}

// A handler of many messages has no ordinal that would not depend on how they were batched.
func TestChildIDsInABatchHandler(t *testing.T) {
	t.Parallel()
	var named []store.ID
	g, err := dedup.NewTxBatch(memstore.New(), "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, ms []dedup.Message) error {
		if _, ok := store.RunFrom(ctx).NextID(); ok {
			t.Error("a run for many messages gives ordinals")
		}
		for _, m := range ms {
			named = append(named, m.ChildID("receipt"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	g.ProcessBatch(t.Context(), messages("payment-42", "payment-43"))
	origin := store.Origin{Consumer: "consumer", Key: store.DigestKey([]byte("payment-42"))}
	if want := store.ChildID(origin.ID(), "receipt"); len(named) != 2 || named[0] != want || named[1] == want {
		t.Errorf("the ids are %v, want %s first", named, want)
	}
}

func TestChildIDOutsideOfAHandler(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v != "dedup: ChildID of a message that no guard has identified" {
			t.Errorf("the panic is %v", v)
		}
	}()
	message("a").ChildID("receipt")
}

func TestAfterCommitIsCalledAfterTheCommitAlone(t *testing.T) {
	t.Parallel()
	failed := errors.New("no")
	unknown := func(n int, real func() (store.End, error)) (store.End, error) {
		_, _ = real()
		return store.Unknown, &faulty{store.FaultOutage}
	}
	conflict := func(n int, real func() (store.End, error)) (store.End, error) {
		if n == 1 {
			return store.RolledBack, &faulty{store.FaultConflict}
		}
		return real()
	}
	for what, c := range map[string]struct {
		commit func(int, func() (store.End, error)) (store.End, error)
		err    error
		want   []string
	}{
		"committed":      {nil, nil, []string{"handler", "after"}},
		"failed":         {nil, failed, []string{"handler"}},
		"unknown":        {unknown, nil, []string{"handler"}},
		"after conflict": {conflict, nil, []string{"handler", "handler", "after"}},
	} {
		for _, batch := range []bool{false, true} {
			b := newBent()
			b.commit = c.commit
			var happened []string
			g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
				happened = append(happened, "handler")
				store.RunFrom(ctx).AfterCommit(func() {
					if b.Get("a") != 1 {
						t.Error("it is called before the commit")
					}
					happened = append(happened, "after")
				})
				return errors.Join(add(ctx, tx, m), c.err)
			})
			if batch {
				g.ProcessBatch(t.Context(), messages("a"))
			} else {
				g.Process(t.Context(), message("a"))
			}
			if !slices.Equal(happened, c.want) {
				t.Errorf("%s: %v, want %v", what, happened, c.want)
			}
		}
	}
}

// A chain calls it after each message's own commit.
func TestAfterCommitInAChain(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		store.RunFrom(ctx).AfterCommit(func() { b.note("after %s", idOf(m)) })
		return add(ctx, tx, m)
	})
	g.ProcessEach(t.Context(), messages("a", "b"))
	wantRecord(t, b, "begin [new]", "next: committed [new]", "after a", "commit: committed", "after b")
}
