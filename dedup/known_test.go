package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func inAll(from, to int) (ms []dedup.Message) {
	for i := from; i <= to; i++ {
		ms = append(ms, in(1, i))
	}
	return ms
}

func ask(t *testing.T, f dedup.Fencer, want int64) store.Applied {
	t.Helper()
	applied, err := f.Applied(t.Context(), "orders", 0)
	if err != nil || applied.Offset != want {
		t.Errorf("the position is %+v, %v, want it at %d", applied, err, want)
	}
	return applied
}

func wantLost(t *testing.T, r dedup.Result) {
	t.Helper()
	wantResult(t, r, dedup.Failed, store.FaultBusy)
	if !errors.Is(r.Err, store.ErrLost) {
		t.Errorf("the error is %v, want ErrLost", r.Err)
	}
}

// everyView runs a test with a guard that has been asked for the position, once for each of the views.
func everyView(t *testing.T, test func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]), opts ...dedup.TxOption) {
	t.Helper()
	t.Parallel()
	for name, view := range fencedViews {
		t.Run(name, func(t *testing.T) {
			c := newCluster(view)
			g := guardOn(t, c, add, opts...)
			ask(t, g, -1)
			test(t, c, g)
		})
	}
}

// Whoever is refused and only tries again is refused again, in every way; and whoever asks in passing has not
// gone back.
func TestPositionThatHasGoneBackIsNotPassedOver(t *testing.T) {
	everyView(t, func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
		wantOutcomes(t, g.ProcessEach(t.Context(), inAll(0, 5)), "applied applied applied applied applied applied")
		c.promote(t, inAll(0, 2)...)
		ask(t, g, 2)
		ask(t, g, 2)
		for range 2 {
			wantLost(t, g.Process(t.Context(), in(1, 6)))
			wantLost(t, g.ProcessBatch(t.Context(), inAll(6, 9))[0])
			wantLost(t, g.Bury(t.Context(), in(1, 6), errors.New("no")))
			wantLost(t, g.Process(t.Context(), in(1, 1))) // not even what is done there, too
		}
		ask(t, g, 2)
		wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(3, 6)), "applied applied applied applied")
		wantOutcomes(t, g.ProcessEach(t.Context(), inAll(5, 7)), "duplicate duplicate applied")
	})
}

// What another one has applied is known of too, from whatever the guard was told: an answer, or a duplicate.
func TestWhatARivalHasAppliedIsKnown(t *testing.T) {
	for _, how := range []string{"an answer", "duplicates", "duplicates of a batch", "the burial of a duplicate"} {
		t.Run(how, func(t *testing.T) {
			everyView(t, func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
				rival := guardOn(t, c, add)
				wantOutcomes(t, rival.ProcessBatch(t.Context(), inAll(0, 3)), "applied applied applied applied")
				const duplicates = "duplicate duplicate duplicate duplicate"
				switch how {
				case "an answer":
					ask(t, g, 3)
				case "duplicates":
					wantOutcomes(t, g.ProcessEach(t.Context(), inAll(0, 3)), duplicates)
				case "duplicates of a batch":
					wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(0, 3)), duplicates)
				default:
					wantResult(t, g.Bury(t.Context(), in(1, 3), errors.New("no")), dedup.Duplicate, 0)
				}
				c.promote(t, inAll(0, 2)...)
				wantLost(t, g.Process(t.Context(), in(1, 4)))
			})
		})
	}
}

// A message that was given up, or that waits behind one, has passed the position like any other.
func TestBuriedAndParkedAreKnown(t *testing.T) {
	for _, how := range []string{"buried", "parked", "parked in a batch"} {
		t.Run(how, func(t *testing.T) {
			everyView(t, func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
				wantResult(t, g.Process(t.Context(), in(1, 0)), dedup.Applied, 0)
				wantResult(t, g.Bury(t.Context(), in(1, 1), errors.New("no")), dedup.Buried, 0)
				has := inAll(0, 0)
				switch how {
				case "parked":
					has = inAll(0, 1)
					wantOutcomes(t, g.ProcessEach(t.Context(), inAll(2, 3)), "parked parked")
				case "parked in a batch":
					has = inAll(0, 1)
					wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(2, 3)), "parked parked")
				}
				c.promote(t, has...)
				wantLost(t, g.Process(t.Context(), in(1, 4)))
			}, dedup.WithParking(func(dedup.Message) []byte { return []byte("all") }))
		})
	}
}

// A COMMIT whose answer was lost, or that failed, is not known of: the message is tried again.
func TestWhatWasNotSeenCommittedIsNotKnown(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		everyViewOf := func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
			c.unknown = unknown
			c.commit = func(n int) error {
				if n == 2 || n == 4 {
					return &faulty{store.FaultOutage}
				}
				return nil
			}
			want, second := "applied failed(outage)", "failed(outage)"
			if unknown {
				want, second = "applied unknown(outage)", "unknown(outage)"
			}
			wantOutcomes(t, g.ProcessEach(t.Context(), inAll(0, 3)), want)
			wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(1, 1)), "applied")
			wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(2, 3)), second)
			wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(2, 3)), "applied applied")
		}
		t.Run(map[bool]string{false: "failed", true: "unknown"}[unknown], func(t *testing.T) { everyView(t, everyViewOf) })
	}
}

// A duplicate by its key has not passed the position before its transaction commits, so it is not settled before
// that either.
func TestDuplicateIsSettledOnceThePositionHasPassedIt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Process", "ProcessEach", "Bury"} {
		c := newCluster((*memstore.Store).FencedMarks)
		g := guardOn(t, c, add)
		ask(t, g, -1)
		retry := in(1, 1) // of a producer
		retry.Headers = in(1, 0).Headers
		wantResult(t, g.Process(t.Context(), in(1, 0)), dedup.Applied, 0)
		c.commit = func(n int) error {
			if n == 2 {
				return &faulty{store.FaultOutage}
			}
			return nil
		}
		process := func() dedup.Result {
			switch how {
			case "Process":
				return g.Process(t.Context(), retry)
			case "ProcessEach":
				return g.ProcessEach(t.Context(), []dedup.Message{retry, in(1, 2)})[0]
			default:
				return g.Bury(t.Context(), retry, errors.New("no"))
			}
		}
		wantResult(t, process(), dedup.Failed, store.FaultOutage)
		ask(t, g, 0)
		wantResult(t, process(), dedup.Duplicate, 0)
		if applied, err := g.Applied(t.Context(), "orders", 0); err != nil || applied.Offset < 1 {
			t.Errorf("%s: the position is %+v, %v", how, applied, err)
		}
	}
}

// Whoever has a position restarted further back has gone there on purpose, and a server that has lost the
// restart is believed too.
func TestRestartsAreNoLoss(t *testing.T) {
	everyView(t, func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
		wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(0, 3)), "applied applied applied applied")
		if _, err := g.RestartFence(t.Context(), "orders", 0, ask(t, g, 3), 0); err != nil {
			t.Fatal(err)
		}
		m := in(1, 4)
		wantLost(t, g.Process(t.Context(), m))
		m.Epoch = 1
		wantResult(t, g.Process(t.Context(), m), dedup.Applied, 0)

		c.promote(t, inAll(0, 2)...) // in the first epoch
		m = in(1, 5)
		m.Epoch = 1
		wantLost(t, g.Process(t.Context(), m))
		if at := ask(t, g, 2); at.Epoch != 0 {
			t.Errorf("the position is %+v", at)
		}
		wantOutcomes(t, g.ProcessEach(t.Context(), inAll(3, 4)), "applied applied")
		c.promote(t, inAll(0, 3)...)
		wantLost(t, g.Process(t.Context(), in(1, 5)))
	})
}

// Somebody else restarts the position: what the guard knows is of the old epoch, until it asks again.
func TestRestartBySomebodyElseIsNoLoss(t *testing.T) {
	everyView(t, func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
		restart := func(offset int64) {
			t.Helper()
			if _, err := guardOn(t, c, add).RestartFence(t.Context(), "orders", 0, store.Applied{Offset: offset}, 1); err != nil {
				t.Fatal(err)
			}
		}
		wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(0, 3)), "applied applied applied applied")
		restart(3)
		fresh := func(i int) dedup.Message { // of another log
			m := in(1, i)
			m.Headers, m.Epoch = message("fresh "+idOf(m)).Headers, 1
			return m
		}
		wantResult(t, g.Process(t.Context(), fresh(2)), dedup.Applied, 0)
		ask(t, g, 2)
		c.promote(t, inAll(0, 3)...)
		restart(3) // with nothing after it
		wantLost(t, g.Process(t.Context(), fresh(3)))
	})
}

// Partitions of one batch are looked at each for itself, and it is the one that is behind that is refused.
func TestOnePartitionOfABatchIsBehind(t *testing.T) {
	everyView(t, func(t *testing.T, c *cluster, g *dedup.TxGuard[*memstore.Tx]) {
		if _, err := g.Applied(t.Context(), "orders", 1); err != nil {
			t.Fatal(err)
		}
		wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{in(2, 0), in(2, 1), in(2, 2), in(2, 3)}), "applied applied applied applied")
		c.promote(t, in(2, 0), in(2, 1), in(2, 2))
		wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{in(2, 4), in(2, 6), in(2, 5), in(2, 8)}), "applied applied failed(busy)")
		wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{in(2, 8), in(2, 10)}), "applied applied")
		wantLost(t, g.Process(t.Context(), in(2, 5)))
	})
}

// Who never asks for the position would not know what to do about its loss.
func TestWhoNeverAsksIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, view := range fencedViews {
		c := newCluster(view)
		g := guardOn(t, c, add)
		wantOutcomes(t, g.ProcessEach(t.Context(), inAll(0, 3)), "applied applied applied applied")
		c.promote(t, inAll(0, 1)...)
		wantOutcomes(t, g.ProcessEach(t.Context(), inAll(4, 5)), "applied applied")
		wantOutcomes(t, g.ProcessBatch(t.Context(), inAll(6, 7)), "applied applied")
	}
}

// A handler may lose something of its own. Its consumer asks for the position then, and nothing is the worse for it.
func TestHandlersLossIsNoLossOfThePosition(t *testing.T) {
	t.Parallel()
	c := newCluster((*memstore.Store).Fenced)
	mended := false
	g := guardOn(t, c, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if idOf(m) == "m2" && !mended {
			return store.ErrLost
		}
		return add(ctx, tx, m)
	})
	ask(t, g, -1)
	wantResult(t, g.ProcessEach(t.Context(), inAll(0, 3))[2], dedup.Failed, store.FaultHandler)
	ask(t, g, 1)
	mended = true
	wantOutcomes(t, g.ProcessEach(t.Context(), inAll(2, 3)), "applied applied")
}
