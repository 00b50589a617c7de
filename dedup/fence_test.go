package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// placed is the message at an offset of the test's partition.
func placed(offset int64, epoch int64) dedup.Message {
	m := message(fmt.Sprintf("m%d", offset))
	m.Position, m.Epoch = at(offset), epoch
	return m
}

func placedAll(epoch, from, to int64) (ms []dedup.Message) {
	for offset := from; offset <= to; offset++ {
		ms = append(ms, placed(offset, epoch))
	}
	return ms
}

func fencedGuard(t *testing.T, pool *pgxpool.Pool, view func(*pgstore.Store) pgstore.Fenced) *dedup.TxGuard[pgxTx] {
	t.Helper()
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	g, err := dedup.NewTx(view(s), "consumer", dedup.FromHeader("id"), dedup.Forever, insert)
	if err != nil {
		t.Fatal(err)
	}
	if !g.Fenced() {
		t.Fatal("the guard has no fence")
	}
	return g
}

func wantApplied(t *testing.T, g dedup.Fencer, want store.Applied) {
	t.Helper()
	got, err := g.Applied(t.Context(), "orders", 3)
	if err != nil || got != want {
		t.Errorf("the position is %+v, %v, want %+v", got, err, want)
	}
}

// A position instead of a mark per message: what lies before it is done.
func TestFence(t *testing.T) {
	t.Parallel()
	for name, view := range map[string]func(*pgstore.Store) pgstore.Fenced{"positions": (*pgstore.Store).Fenced, "positions and keys": (*pgstore.Store).FencedMarks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			g := fencedGuard(t, pool, view)
			wantApplied(t, g, store.Applied{Offset: -1})
			wantOutcomes(t, g.ProcessEach(t.Context(), placedAll(0, 0, 2)), "applied applied applied")
			wantApplied(t, g, store.Applied{Offset: 2, Record: dedup.RecordOf(placed(2, 0))})
			wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 1, 4)), "duplicate duplicate applied applied")
			wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 0, 4)), "duplicate duplicate duplicate duplicate duplicate")
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{placed(3, 0), placed(9, 0), placed(9, 0), placed(10, 0)}), "duplicate applied duplicate applied")
			// One that is given up has passed as well.
			wantResult(t, g.Bury(t.Context(), placed(11, 0), errors.New("no")), dedup.Buried, 0)
			wantResult(t, g.Bury(t.Context(), placed(11, 0), errors.New("no")), dedup.Duplicate, 0)
			wantApplied(t, g, store.Applied{Offset: 11, Record: dedup.RecordOf(placed(11, 0))})

			// On purpose: from the beginning, in a new epoch. Who has the old one is refused.
			at, err := g.RestartFence(t.Context(), "orders", 3, store.Applied{Offset: 11}, -1)
			if err != nil || at != (store.Applied{Offset: -1, Epoch: 1}) {
				t.Fatalf("restart: %+v, %v", at, err)
			}
			if _, err := g.RestartFence(t.Context(), "orders", 3, store.Applied{Offset: 11}, -1); !errors.Is(err, store.ErrLost) {
				t.Errorf("a second restart: %v", err)
			}
			r := g.Process(t.Context(), placed(12, 0))
			wantResult(t, r, dedup.Failed, store.FaultBusy)
			if !errors.Is(r.Err, store.ErrLost) {
				t.Errorf("the old epoch: %v", r.Err)
			}
			wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 12, 14)), "failed(busy)")
			again := "applied applied"
			if name != "positions" {
				again = "duplicate duplicate" // the keys have not forgotten
			}
			wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(1, 0, 1)), again)
			wantApplied(t, g, store.Applied{Offset: 1, Record: dedup.RecordOf(placed(1, 0)), Epoch: 1})
		})
	}
	pool := database(t)
	both := fencedGuard(t, pool, (*pgstore.Store).FencedMarks)
	twice := placed(1, 0)
	twice.Headers = placed(0, 0).Headers // a producer's retry has a position of its own
	wantOutcomes(t, both.ProcessBatch(t.Context(), []dedup.Message{placed(0, 0), twice, placed(2, 0)}), "applied duplicate applied")
	wantRows(t, pool, "m0:1 m2:1")
}

// Order per key holds where positions are kept, too: what waits has passed.
func TestFenceAndParking(t *testing.T) {
	t.Parallel()
	for name, view := range map[string]func(*pgstore.Store) pgstore.Fenced{"positions": (*pgstore.Store).Fenced, "positions and keys": (*pgstore.Store).FencedMarks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			s := graveyard(t, pool)
			g, err := dedup.NewTx(view(s), "consumer", dedup.FromHeader("id"), dedup.Forever, insert, dedup.WithParking(dedup.OrderByKey))
			if err != nil {
				t.Fatal(err)
			}
			all := placedAll(0, 0, 4)
			for i, order := range []string{"k", "j", "k", "j", "k"} {
				all[i].Key = []byte(order)
			}
			wantResult(t, g.Bury(t.Context(), all[0], errors.New("no")), dedup.Buried, 0)
			wantOutcomes(t, g.ProcessBatch(t.Context(), all[:4]), "duplicate applied parked applied")
			wantOutcomes(t, g.ProcessEach(t.Context(), all), "duplicate duplicate duplicate duplicate parked")
			if n, err := g.ReplayKey(t.Context(), []byte("k")); n != 3 || err != nil {
				t.Error(n, err)
			}
			wantOutcomes(t, g.ProcessEach(t.Context(), all), "duplicate duplicate duplicate duplicate duplicate")
			wantRows(t, pool, "m0:1 m1:1 m2:1 m3:1 m4:1")
		})
	}
}

// Two owners after a rebalance work on the same messages. The row of the position makes one wait
// for the other, and what one has done the other finds done.
func TestFenceBetweenRivals(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var all sync.WaitGroup
	const last = 300
	for range 4 {
		g := fencedGuard(t, pool, (*pgstore.Store).Fenced)
		all.Go(func() {
			for from := int64(0); from <= last; {
				results := g.ProcessBatch(t.Context(), placedAll(0, from, min(from+9, last)))
				for _, r := range results {
					if !r.Outcome.Settled() {
						if r.Fault == store.FaultHandler {
							t.Error(r.Err)
						}
						break
					}
					from++
				}
			}
		})
	}
	all.Wait()
	if got := column(t, pool, "select count(*)::text || ' of ' || count(distinct id) from effects"); got != fmt.Sprintf("%d of %d", last+1, last+1) {
		t.Errorf("the effects are %s", got)
	}
}

func TestFenceWithLostCommit(t *testing.T) {
	t.Parallel()
	pool := database(t)
	proxy := servertest.Proxy(t, pool.Config().ConnString())
	g := fencedGuard(t, connect(t, proxy.DSN()), (*pgstore.Store).Fenced)
	proxy.Arm(servers.LoseAnswer, 1)
	wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 0, 2)), "unknown(outage)")
	wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 0, 3)), "duplicate duplicate duplicate applied")
	proxy.Arm(servers.LoseCommit, 1)
	wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 4, 5)), "unknown(outage)")
	wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 4, 5)), "applied applied")
	wantRows(t, pool, "m0:1 m1:1 m2:1 m3:1 m4:1 m5:1")
}

// One bad message in a batch: its neighbours are settled, and the position stops before it.
func TestFenceStopsBeforeAFailure(t *testing.T) {
	t.Parallel()
	pool := database(t)
	exec(t, pool, "alter table effects add check (id <> 'm5')")
	g := fencedGuard(t, pool, (*pgstore.Store).Fenced)
	wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 0, 9)), "applied applied applied applied applied failed(handler)")
	wantApplied(t, g, store.Applied{Offset: 4, Record: dedup.RecordOf(placed(4, 0))})
	wantResult(t, g.Bury(t.Context(), placed(5, 0), errors.New("no")), dedup.Buried, 0)
	wantOutcomes(t, g.ProcessBatch(t.Context(), placedAll(0, 5, 9)), "duplicate applied applied applied applied")
	wantRows(t, pool, "m0:1 m1:1 m2:1 m3:1 m4:1 m6:1 m7:1 m8:1 m9:1")
}

// What a message causes has the same ids whether its key is stored or not: the digest is made when
// somebody asks.
func TestIdsUnderAFence(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s := graveyard(t, pool)
	ids := map[string][]store.ID{}
	note := func(name string, m dedup.Message, run *store.Run) {
		ids[name] = append(ids[name], m.ChildID("x"))
		if id, ok := run.NextID(); ok {
			ids[name+" next"] = append(ids[name+" next"], id)
		}
	}
	for name, view := range map[string]store.Marks[pgxTx]{"marks": s, "positions": s.Fenced(), "both": s.FencedMarks()} {
		one, err1 := dedup.NewTx(view, "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, _ pgxTx, m dedup.Message) error {
			note(name, m, store.RunFrom(ctx))
			return nil
		})
		many, err2 := dedup.NewTxBatch(view, "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, _ pgxTx, ms []dedup.Message) error {
			for _, m := range ms {
				note(name, m, store.RunFrom(ctx))
			}
			return nil
		})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		wantOutcomes(t, one.ProcessEach(t.Context(), placedAll(0, 0, 1)), "applied applied")
		wantOutcomes(t, many.ProcessBatch(t.Context(), placedAll(0, 2, 3)), "applied applied")
		exec(t, pool, "truncate semel.marks_plain, semel.fences")
	}
	for _, kind := range []string{"", " next"} {
		want := ids["marks"+kind]
		if len(want) == 0 || !slices.Equal(ids["positions"+kind], want) || !slices.Equal(ids["both"+kind], want) {
			t.Errorf("the ids%s are %v", kind, ids)
		}
	}
	// A key function that changes its mind is the message's fault, and no crash.
	asked := 0
	moody, err := dedup.NewTx(s.Fenced(), "moody", func(m dedup.Message) (dedup.Key, error) {
		if asked++; asked%2 == 1 && len(m.Headers) > 0 {
			panic("now and then")
		}
		return dedup.FromHeader("id")(m)
	}, dedup.Forever, func(ctx context.Context, tx pgxTx, m dedup.Message) error {
		store.RunFrom(ctx).NextID()
		return insert(ctx, tx, m)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, moody.ProcessEach(t.Context(), placedAll(0, 0, 0)), "failed(handler)")

	// A message without a key is refused all the same.
	g := fencedGuard(t, pool, (*pgstore.Store).Fenced)
	m := placed(0, 0)
	m.Headers = nil
	wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{m}), "failed(handler)")
}

// What tells a record from another one in its place.
func TestRecordOf(t *testing.T) {
	t.Parallel()
	base := dedup.Message{Position: at(1), Key: []byte("k"), Body: []byte("body")}
	same := base
	same.Attempt, same.Epoch, same.Headers = 7, 7, []dedup.Header{{Key: "x"}}
	if dedup.RecordOf(base) != dedup.RecordOf(same) {
		t.Error("what a delivery adds changes the record")
	}
	for name, change := range map[string]func(m *dedup.Message){
		"time": func(m *dedup.Message) { m.Position.Time = m.Position.Time.Add(time.Millisecond) },
		"key":  func(m *dedup.Message) { m.Key = []byte("j") },
		"body": func(m *dedup.Message) { m.Body = []byte("Body") },
		"size": func(m *dedup.Message) { m.Key, m.Body = []byte("kb"), []byte("ody") },
	} {
		other := base
		change(&other)
		if dedup.RecordOf(base) == dedup.RecordOf(other) {
			t.Errorf("another %s is the same record", name)
		}
	}
}

func TestNoFence(t *testing.T) {
	t.Parallel()
	if g := guardOn(t, newBent(), add); g.Fenced() {
		t.Error("a store of marks alone has a fence")
	}
	if g := guardOn(t, onlyMarks{newBent()}, add); g.Counts() {
		t.Error("a store of marks alone counts attempts")
	}
}
