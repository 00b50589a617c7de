package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// parked is a store in which a key is parked by one dead letter, and a mark of that key.
func parked(t *testing.T) (*memstore.Store, store.Mark) {
	t.Helper()
	s := memstore.New(memstore.WithLockWait(time.Hour))
	scope, err := s.Scope(t.Context(), "billing", store.Forever)
	if err != nil {
		t.Fatal(err)
	}
	bury(t, s, "x")
	return s, store.Mark{Scope: scope, Key: store.DigestKey([]byte("m")), Order: store.OrderID([]byte("x"))}
}

func bury(t *testing.T, s *memstore.Store, order string) {
	t.Helper()
	err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error {
		return s.BuryTx(ctx, tx, store.DeadLetter{Consumer: "billing", Order: []byte(order)})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMessagesOfAParkedKeyDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := parked(t)
		began := time.Now()
		begin(t, s, m)
		m.Key = store.DigestKey([]byte("n"))
		begin(t, s, m)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the second one waited %s", waited)
		}
	})
}

// A message is behind one of two keys when a discard takes them both: it gets one of them and waits
// for the message, which then wants to go behind that one.
func TestADeadlockThroughASharedLockIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := parked(t)
		bury(t, s, "y")
		first, second := store.OrderID([]byte("x")), store.OrderID([]byte("y"))
		if bytes.Compare(first[:], second[:]) > 0 {
			first, second = second, first
		}
		m.Order = second
		u := begin(t, s, m)
		began := time.Now()
		discarded := make(chan error, 1)
		go func() { _, err := s.DiscardDead(t.Context(), 1, 2); discarded <- err }()
		synctest.Wait()
		m.Order, m.Key = first, store.DigestKey([]byte("n"))
		_, err := s.MarkTx(t.Context(), u.Tx(), []store.Mark{m})
		wantFault(t, s, err, store.FaultConflict)
		if err := u.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-discarded; err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %s", waited)
		}
	})
}

func TestADiscardWaitsForWhatIsRunAndForWhatGoesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := parked(t)
		bury(t, s, "y")
		behind := begin(t, s, m) // holds x, so that the discard stops there
		y, _, err := s.Revive(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		discarded := make(chan error, 1)
		go func() { _, err := s.DiscardDead(t.Context(), 1, 2); discarded <- err }()
		synctest.Wait()
		// The discard holds letter 1 and waits for letter 2, whose revival holds y.
		m.Order, m.Key = store.OrderID([]byte("y")), store.DigestKey([]byte("n"))
		waiting := make(chan error, 1)
		go func() {
			_, err := s.MarkTx(t.Context(), behind.Tx(), []store.Mark{m})
			waiting <- err
		}()
		synctest.Wait()
		if _, err := y.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		if _, err := behind.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-discarded; err != nil {
			t.Error(err)
		}
		if keys, err := s.ParkedKeys(t.Context(), "", 10); len(keys) != 0 || err != nil {
			t.Errorf("parked keys %+v, %v", keys, err)
		}
	})
}

func TestADiscardOfALetterThatIsRunAgainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithLockWait(time.Second))
		bury(t, s, "x")
		u, _, err := s.Revive(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.DiscardDead(t.Context(), 1)
		wantFault(t, s, err, store.FaultBusy)
		_, _, err = s.Revive(t.Context(), 1)
		wantFault(t, s, err, store.FaultBusy)
		if err := u.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		if n, err := s.DiscardDead(t.Context(), 1, 1); n != 1 || err != nil {
			t.Errorf("discarded %d, %v", n, err)
		}
	})
}

func TestARefusedRevivalHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := parked(t)
		bury(t, s, "x")
		if _, _, err := s.Revive(t.Context(), 2); !errors.Is(err, store.ErrBehind) {
			t.Fatalf("revive the second letter: %v", err)
		}
		began := time.Now()
		begin(t, s, m)
		if n, err := s.DiscardDead(t.Context()); n != 0 || err != nil {
			t.Errorf("discard of nothing: %d, %v", n, err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %s", waited)
		}
	})
}
