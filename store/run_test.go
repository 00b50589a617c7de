package store_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/semel-dev/semel/store"
)

func TestARunThatIsRepeatedGivesTheSameIDs(t *testing.T) {
	origin := someOrigin
	var runs [2][]store.ID
	for i := range runs {
		run := store.NewRun(origin)
		for range 20 {
			id, ok := run.NextID()
			if !ok {
				t.Fatal("no id")
			}
			wantVersion(t, id, 5)
			runs[i] = append(runs[i], id)
		}
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("the ids are %v, and then %v", runs[0], runs[1])
	}
	for what, other := range map[string]store.Origin{
		"another message":  {Consumer: origin.Consumer, Key: store.DigestKey([]byte("payment-43"))},
		"another consumer": {Consumer: "shipping", Key: origin.Key},
		"another layout":   {Consumer: origin.Consumer, Key: store.Key{ID: origin.Key.ID, Timed: !origin.Key.Timed}},
	} {
		if id, _ := store.NewRun(other).NextID(); id == runs[0][0] {
			t.Errorf("%s has the same id", what)
		}
	}
	seen := make(map[store.ID]bool)
	for _, id := range runs[0] {
		if seen[id] {
			t.Errorf("%s came twice", id)
		}
		seen[id] = true
	}
}

// An outbox row that was written by an older version must be recognised by a newer one.
func TestOrdinalsAreNamedLikeThisForEver(t *testing.T) {
	origin := store.Origin{Consumer: "billing", Key: store.Key{ID: mustID(t, "0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e"), Timed: true}}
	if got, want := origin.ID(), store.ChildID(origin.Key.ID, "billing\x00"); got != want {
		t.Errorf("the origin's id is %s, want %s", got, want)
	}
	if got, want := origin.ID().String(), "fe03b45f-a877-5ac5-8e44-bdf6e46068fe"; got != want {
		t.Errorf("the origin's id is %s, want %s", got, want)
	}
	run := store.NewRun(origin)
	for _, name := range []string{"#1", "#2", "#3", "#4", "#5", "#6", "#7", "#8", "#9", "#10"} {
		if got, _ := run.NextID(); got != store.ChildID(origin.ID(), name) {
			t.Errorf("the id is %s, want the child %s", got, name)
		}
	}
}

func TestTheZeroOriginIsNone(t *testing.T) {
	if !(store.Origin{}).IsZero() {
		t.Error("the zero Origin is not zero")
	}
	if (store.Origin{Consumer: "billing"}).IsZero() {
		t.Error("an Origin with a consumer is zero")
	}
}

func TestARunForManyMessagesGivesNoIDs(t *testing.T) {
	if id, ok := store.NewRun(store.Origin{}).NextID(); ok || !id.IsZero() {
		t.Errorf("NextID is %s, %t", id, ok)
	}
}

var someOrigin = store.Origin{Consumer: "billing", Key: store.DigestKey([]byte("payment-42"))}

func TestAfterCommitIsCalledOnceAndInOrder(t *testing.T) {
	run := store.NewRun(someOrigin)
	var calls []int
	for i := range 3 {
		run.AfterCommit(func() { calls = append(calls, i) })
	}
	if len(calls) != 0 {
		t.Error("called before the commit")
	}
	run.Committed()
	run.Committed()
	if !slices.Equal(calls, []int{0, 1, 2}) {
		t.Errorf("the calls were %v", calls)
	}
}

// What is called may use the run; were it called under the run's lock, it would hang.
func TestAfterCommitMayUseTheRun(t *testing.T) {
	run := store.NewRun(someOrigin)
	var second bool
	run.AfterCommit(func() {
		run.NextID()
		run.AfterCommit(func() { second = true })
	})
	run.Committed()
	if second {
		t.Error("what was registered during the calls was called in the same round")
	}
	run.Committed()
	if !second {
		t.Error("what was registered during the calls was lost")
	}
}

func TestARunIsSafeForConcurrentUse(t *testing.T) {
	run := store.NewRun(someOrigin)
	ids := make(chan store.ID, 100)
	var called atomic.Int32
	var wg sync.WaitGroup
	for range cap(ids) {
		wg.Go(func() {
			id, _ := run.NextID()
			ids <- id
			run.AfterCommit(func() { called.Add(1) })
		})
	}
	wg.Wait()
	close(ids)
	run.Committed()
	seen := make(map[store.ID]bool)
	for id := range ids {
		seen[id] = true
	}
	if len(seen) != cap(ids) || int(called.Load()) != cap(ids) {
		t.Errorf("%d different ids and %d calls of %d", len(seen), called.Load(), cap(ids))
	}
}

func TestTheContextCarriesTheRun(t *testing.T) {
	if run := store.RunFrom(t.Context()); run != nil {
		t.Errorf("outside of a handler the run is %v", run)
	}
	run := store.NewRun(someOrigin)
	ctx := store.WithRun(t.Context(), run)
	if store.RunFrom(ctx) != run {
		t.Error("the context has another run")
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if store.RunFrom(inner) != run {
		t.Error("a context made of it has another run")
	}
	nested := store.NewRun(someOrigin)
	if store.RunFrom(store.WithRun(inner, nested)) != nested {
		t.Error("the inner run does not hide the outer one")
	}
}

func TestAnOriginIsFoundOnceAndOnlyWhereAnIDIsAskedFor(t *testing.T) {
	found := 0
	find := func() store.Origin { found++; return someOrigin }
	run := store.NewRunOf(find)
	run.AfterCommit(func() {})
	run.Committed()
	if found != 0 {
		t.Error("the origin was looked for where nobody had asked for an id")
	}
	known := store.NewRun(someOrigin)
	for range 3 {
		id, ok := run.NextID()
		if want, _ := known.NextID(); !ok || id != want {
			t.Errorf("the id is %s, want %s", id, want)
		}
	}
	if found != 1 {
		t.Errorf("the origin was looked for %d times", found)
	}
	if _, ok := store.NewRunOf(func() store.Origin { return store.Origin{} }).NextID(); ok {
		t.Error("there is an id without an origin")
	}
}
