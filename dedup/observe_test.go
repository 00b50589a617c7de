package dedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/memstore"
)

// Every way in is observed once, with all that was handed over and all that was answered.
func TestObserverSeesWhatTheConsumerIsTold(t *testing.T) {
	t.Parallel()
	var seen []string
	watch := dedup.WithObserver(func(_ context.Context, o dedup.Observation) {
		var words []string
		for i, m := range o.Messages {
			words = append(words, idOf(m))
			if i < len(o.Results) {
				words = append(words, o.Results[i].Outcome.String())
			}
		}
		if o.Took <= 0 {
			t.Errorf("%v took %s", words, o.Took)
		}
		seen = append(seen, strings.Join(words, " "))
	})
	g := guardOn(t, memstore.New(), except(map[string]error{"bad": errors.New("no")}), watch)
	ctx := t.Context()
	g.Process(ctx, message("a"))
	g.ProcessEach(ctx, messages("a", "b", "bad", "c"))
	g.ProcessBatch(ctx, messages("c", "d", "bad", "e"))
	g.Bury(ctx, message("bad"), errors.New("given up"))
	g.ProcessEach(ctx, nil)
	want := []string{
		"a applied", "a duplicate b applied bad failed c", "c applied d applied bad failed e", "bad buried",
	}
	if strings.Join(seen, "; ") != strings.Join(want, "; ") {
		t.Errorf("observed %q, want %q", seen, want)
	}
}

// What it sees is committed: the effect is there for everybody.
func TestObserverComesAfterTheCommit(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var effects []int64
	g := guardOn(t, s, add, dedup.WithObserver(func(_ context.Context, o dedup.Observation) {
		effects = append(effects, s.Get(idOf(o.Messages[0])))
	}))
	g.Process(t.Context(), message("a"))
	g.ProcessBatch(t.Context(), messages("b"))
	if len(effects) != 2 || effects[0] != 1 || effects[1] != 1 {
		t.Errorf("the observer found the effects %v, want one of each", effects)
	}
}
