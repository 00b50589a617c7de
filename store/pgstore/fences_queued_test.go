package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// A mark that is set in the caller's own transaction moves the position, as one that is begun does, and is
// kept as a key only where keys are kept.
func TestMarkTxOfAQueuedFenceMovesThePosition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		view func(*pgstore.Store) pgstore.Fenced
		keys bool
	}{"positions": {(*pgstore.Store).Fenced, false}, "positions and keys": {(*pgstore.Store).FencedMarks, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			s := newStore(t, pool)
			scope, view := scopeOf(t, s), c.view(s).Queued()
			var marker store.TxMarker[pgx.Tx] = view
			placed := func(name string, offset int64) store.Mark {
				m := plainMark(scope, name)
				m.Place = &store.Place{Log: "log", Offset: offset}
				return m
			}
			for _, one := range []struct {
				mark store.Mark
				want store.Status
			}{{placed("a", 3), store.New}, {placed("b", 2), store.Seen}, {placed("c", 4), store.New}} {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					status, err := marker.MarkTx(t.Context(), tx, []store.Mark{one.mark})
					if err == nil && status[0] != one.want {
						t.Errorf("the mark at %d is %s, want %s", one.mark.Place.Offset, status[0], one.want)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if at, err := view.Applied(t.Context(), scope, "log", 0); err != nil || at.Offset != 4 {
				t.Errorf("the position is %+v, %v, want 4", at, err)
			}
			if n := queryOne[int64](t, pool, "select count(*) from semel.marks_plain"); (n > 0) != c.keys {
				t.Errorf("%d keys are kept", n)
			}
		})
	}
}
