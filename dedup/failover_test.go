package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/memstore"
)

// The server fails over to one that lacks what it committed last, at any moment and however much it
// lacks. Every message has its effect once there, too.
func TestFailoverAtAnyMoment(t *testing.T) {
	t.Parallel()
	const messages = 8
	for name, view := range fencedViews {
		for _, partitions := range []int{1, 2, 3} {
			for _, how := range []string{"Process", "ProcessEach", "ProcessBatch", "ProcessBatch in parts", "Bury"} {
				t.Run(fmt.Sprint(name, ", ", partitions, " partitions, ", how), func(t *testing.T) {
					t.Parallel()
					var all []dedup.Message
					for i := range messages {
						all = append(all, in(partitions, i))
					}
					for after := 1; after <= messages; after++ {
						for lacks := 1; lacks <= messages; lacks++ {
							failOver(t, view, partitions, all, how, after, lacks)
						}
					}
				})
			}
		}
	}
}

func failOver(t *testing.T, view func(*memstore.Store) memstore.Fenced, partitions int, all []dedup.Message, how string, after, lacks int) {
	t.Helper()
	c := newCluster(view)
	failed := false
	g := guardOn(t, c, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if how == "ProcessBatch in parts" && idOf(m) == "m4" && !failed {
			failed = true
			return errors.New("no")
		}
		return add(ctx, tx, m)
	})
	missing := 0
	c.committed = func(n int) {
		if n != after {
			return
		}
		var has []dedup.Message
		for _, m := range all {
			if c.ends(t, m) > 0 {
				has = append(has, m)
			}
		}
		if len(has) <= len(all)-partitions { // What is lost of a partition its next message shows.
			missing = min(lacks, len(has))
			c.promote(t, has[:len(has)-missing]...)
		}
	}
	process := func(ctx context.Context, ms []dedup.Message) []dedup.Result {
		return g.ProcessBatch(ctx, ms[:min(3, len(ms))])
	}
	switch how {
	case "Process":
		process = func(ctx context.Context, ms []dedup.Message) []dedup.Result {
			return []dedup.Result{g.Process(ctx, ms[0])}
		}
	case "ProcessBatch in parts":
		process = g.ProcessBatch
	case "ProcessEach":
		process = g.ProcessEach
	case "Bury":
		process = func(ctx context.Context, ms []dedup.Message) []dedup.Result {
			return []dedup.Result{g.Bury(ctx, ms[0], errors.New("no"))}
		}
	}
	lost := follow(t, g, partitions, all, process)
	if (lost > 0) != (missing > 0) || lost > partitions {
		t.Errorf("%d messages were missing after commit %d, and %d were refused", missing, after, lost)
	}
	for _, m := range all {
		if n := c.ends(t, m); n != 1 {
			t.Errorf("%d missing after commit %d: %s has taken effect or been buried %d times", missing, after, idOf(m), n)
		}
	}
}
