package dedup_test

import (
	"context"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// Where only places count, the key is looked for to see that there is one; what it makes of the message is
// reckoned for those handlers alone that ask.
func TestKeyIsLookedForOnceUnlessAHandlerAsks(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		looked := 0
		key := func(m dedup.Message) (dedup.Key, error) {
			looked++
			return dedup.FromHeader("id")(m)
		}
		var ids []store.ID
		g, err := dedup.NewTx(memstore.New().Fenced(), "consumer", key, dedup.Forever, func(ctx context.Context, _ *memstore.Tx, m dedup.Message) error {
			if asks {
				for range 2 {
					id, _ := store.RunFrom(ctx).NextID()
					ids = append(ids, id)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []struct {
			name    string
			process func(ctx context.Context, ms []dedup.Message) []dedup.Result
			from    int64
		}{{"each", g.ProcessEach, 0}, {"batch", g.ProcessBatch, 10}} {
			looked, ids = 0, nil
			for _, r := range how.process(t.Context(), placedAll(0, how.from, how.from+9)) {
				wantResult(t, r, dedup.Applied, 0)
			}
			if !asks && looked != 10 || asks && looked != 20 {
				t.Errorf("%s, asks=%t: the key function ran %d times for 10 messages", how.name, asks, looked)
			}
			for i, id := range ids {
				k, _ := key(placed(how.from+int64(i/2), 0))
				run := store.NewRun(store.Origin{Consumer: "consumer", Key: k.Stored()})
				want, _ := run.NextID()
				if i%2 == 1 {
					want, _ = run.NextID()
				}
				if id != want {
					t.Errorf("%s: id %d is %s, want %s", how.name, i, id, want)
				}
			}
		}
	}
}

// A message that a guard hands on to another one is the inner one's there: the ids are those that it has when
// nobody is around it.
func TestIDsAreThoseOfTheInnermostGuard(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]store.Marks[*memstore.Tx]{"keys": memstore.New(), "positions": memstore.New().Fenced(), "both": memstore.New().FencedMarks()} {
		var ids [2]store.ID
		inner, err := dedup.NewTx(s, "inner", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, _ *memstore.Tx, m dedup.Message) error {
			ids[0] = m.ChildID("receipt")
			ids[1], _ = store.RunFrom(ctx).NextID()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		offset := int64(0)
		for what, s := range map[string]store.Marks[*memstore.Tx]{"keys": memstore.New(), "positions": memstore.New().Fenced()} {
			ids = [2]store.ID{}
			m := placed(offset, 0)
			offset++
			outer := guardOn(t, s, func(ctx context.Context, _ *memstore.Tx, m dedup.Message) error {
				wantResult(t, inner.Process(ctx, m), dedup.Applied, 0)
				return nil
			})
			wantResult(t, outer.Process(t.Context(), m), dedup.Applied, 0)
			origin := store.Origin{Consumer: "inner", Key: store.DigestKey([]byte(idOf(m)))}
			first, _ := store.NewRun(origin).NextID()
			if ids != [2]store.ID{store.ChildID(origin.ID(), "receipt"), first} {
				t.Errorf("%s within %s: the ids are not those of the inner guard", name, what)
			}
		}
	}
}
