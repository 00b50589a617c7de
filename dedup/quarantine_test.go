package dedup_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// A message that was applied, and comes again after its mark was removed, is quarantined. Whoever runs it again
// is told the same ids as the first time, so that what it causes is not caused twice elsewhere.
func TestQuarantinedMessageCausesTheSameIDs(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s := graveyard(t, pool)
	var runs [][]store.ID
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), time.Hour, func(ctx context.Context, _ pgxTx, m dedup.Message) error {
		first, _ := store.RunFrom(ctx).NextID()
		runs = append(runs, []store.ID{m.ChildID("receipt"), first})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const v7 = "019d0000-0000-7000-8000-000000000001" // in March 2026
	for _, id := range []string{"a", v7} {
		runs = nil
		m := message(id)
		m.Position = at(1)
		wantResult(t, g.Process(t.Context(), m), dedup.Applied, 0)
		// What the removal of marks does.
		exec(t, pool, "update semel.scopes set purged_ms = extract(epoch from timestamptz '2026-06-01') * 1000")
		exec(t, pool, "delete from semel.marks_plain")
		exec(t, pool, "delete from semel.marks_timed")
		r := g.Process(t.Context(), m)
		wantResult(t, r, dedup.Late, store.FaultHandler)
		wantResult(t, g.Bury(t.Context(), m, r.Err), dedup.Buried, 0)
		wantResult(t, g.Bury(t.Context(), m, r.Err), dedup.Duplicate, 0)
		letter := wantLetters(t, s, id+":quarantined")[0]
		if k, _ := dedup.FromHeader("id")(m); letter.Key != k.Stored() {
			t.Errorf("the letter's key is %v, want that of its message, %v", letter.Key, k.Stored())
		}
		wantResult(t, g.Replay(t.Context(), letter.ID), dedup.Applied, 0)
		if len(runs) != 2 || !slices.Equal(runs[0], runs[1]) {
			t.Errorf("%s caused %v", id, runs)
		}
		exec(t, pool, "update semel.scopes set purged_ms = 0")
	}
}
