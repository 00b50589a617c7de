package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func placed(offset int64) store.Mark {
	return store.Mark{Scope: 1, Key: store.DigestKey([]byte{byte(offset)}), Place: &store.Place{Log: "log", Offset: offset}}
}

func TestAMarkWithoutAPlaceIsRefusedWherePositionsAreKept(t *testing.T) {
	s := memstore.New()
	for name, view := range map[string]memstore.Fenced{"positions": s.Fenced(), "positions and keys": s.FencedMarks()} {
		_, _, err := view.Begin(t.Context(), []store.Mark{placed(0), markOf("m")})
		wantFault(t, s, err, store.FaultHandler)
		u := begin(t, s)
		_, err = view.MarkTx(t.Context(), u.Tx(), []store.Mark{markOf("m")})
		wantFault(t, s, err, store.FaultHandler)
		_ = u.Rollback(t.Context())
		unit, statuses, err := view.Begin(t.Context(), []store.Mark{placed(0)})
		if err != nil || statuses[0] != store.New {
			t.Errorf("%s: after it: %v, %v", name, statuses, err)
			continue
		}
		_ = unit.Rollback(t.Context())
	}
}

func TestMarkTxOfAViewMovesThePosition(t *testing.T) {
	s := memstore.New()
	view := s.Fenced()
	mark := func(want ...store.Status) {
		t.Helper()
		err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error {
			for i, st := range want {
				got, err := view.MarkTx(ctx, tx, []store.Mark{placed(int64(i))})
				if err != nil {
					return err
				}
				if got[0] != st {
					t.Errorf("offset %d is %s, want %s", i, got[0], st)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mark(store.New, store.New)
	mark(store.Seen, store.Seen, store.New)
	at, err := view.Applied(t.Context(), 1, "log", 0)
	if err != nil || at.Offset != 2 {
		t.Errorf("the position is %+v, %v", at, err)
	}
}

// A handler that marks by another view of the store knows of the unit's own move.
func TestAPositionMovedTwiceInATransaction(t *testing.T) {
	s := memstore.New()
	view := s.Fenced()
	u, _, err := view.Begin(t.Context(), []store.Mark{placed(3)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := view.MarkTx(t.Context(), u.Tx(), []store.Mark{placed(3), placed(4)})
	if err != nil || got[0] != store.Seen || got[1] != store.New {
		t.Errorf("statuses %v, %v", got, err)
	}
	if err := u.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if at, _ := view.Applied(t.Context(), 1, "log", 0); at.Offset != -1 {
		t.Errorf("after the rollback the position is %+v", at)
	}
}

func TestAFenceCannotStartBeforeNothing(t *testing.T) {
	s := memstore.New()
	if _, err := s.Fenced().RestartFence(t.Context(), 1, "log", 0, store.Applied{Offset: -1}, -2); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("restart at -2: %v", err)
	}
}
