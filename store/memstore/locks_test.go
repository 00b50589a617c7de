package memstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestRivalsOfARowAddOneAfterTheOther(t *testing.T) {
	s := memstore.New()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error {
				if _, err := tx.Get("n"); err != nil { // and hold nothing by it
					return err
				}
				n, err := tx.Add(ctx, "n", 1)
				if err != nil {
					return err
				}
				return tx.Put(ctx, "copy", n)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, c := s.Get("n"), s.Get("copy"); n != 50 || c != 50 {
		t.Errorf("n is %d and its copy %d, want 50", n, c)
	}
}

func TestADeadlockIsFoundAndIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithLockWait(time.Hour))
		a, b, c := begin(t, s), begin(t, s), begin(t, s)
		add(t, a.Tx(), "a", 1)
		add(t, b.Tx(), "b", 1)
		add(t, c.Tx(), "c", 1)
		began := time.Now()
		waiting := make(chan error, 2)
		go func() { _, err := a.Tx().Add(t.Context(), "b", 1); waiting <- err }()
		synctest.Wait()
		go func() { _, err := b.Tx().Add(t.Context(), "c", 1); waiting <- err }()
		synctest.Wait()

		_, err := c.Tx().Add(t.Context(), "a", 1)
		wantFault(t, s, err, store.FaultConflict)
		wantFault(t, c, errors.New("the transfer did not work out"), store.FaultConflict)
		if end, err := c.Commit(t.Context()); end != store.RolledBack || err == nil {
			t.Errorf("the loser's commit: %q, %v", end, err)
		}
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		if _, err := b.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		if _, err := a.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %s where the ring was there at once", waited)
		}
	})
}

// Whoever has stopped waiting is no part of a ring any more.
func TestARivalThatGaveUpIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithLockWait(time.Second))
		a, b := begin(t, s), begin(t, s)
		add(t, a.Tx(), "a", 1)
		add(t, b.Tx(), "b", 1)
		_, err := a.Tx().Add(t.Context(), "b", 1)
		wantFault(t, s, err, store.FaultBusy)
		_, err = b.Tx().Add(t.Context(), "a", 1)
		wantFault(t, s, err, store.FaultBusy)
	})
}

func TestARowIsWaitedForWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithLockWait(3 * time.Second))
		holder, u := begin(t, s), begin(t, s)
		add(t, holder.Tx(), "n", 1)
		began := time.Now()
		_, err := u.Tx().Add(t.Context(), "n", 1)
		wantFault(t, s, err, store.FaultBusy)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %s, want 3s", waited)
		}
	})
}

func TestTheDefaultLockWaitIsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		begin(t, s, markOf("m"))
		began := time.Now()
		_, _, err := s.Begin(t.Context(), []store.Mark{markOf("m")})
		wantFault(t, s, err, store.FaultBusy)
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("waited %s, want 5s", waited)
		}
	})
}

// The limit is for the call and not for each of its marks.
func TestManyBusyMarksShareOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithLockWait(3 * time.Second))
		for _, m := range []string{"a", "b", "c"} {
			u := begin(t, s, markOf(m))
			go func() {
				time.Sleep(2 * time.Second)
				_ = u.Rollback(context.Background())
			}()
		}
		held := begin(t, s, markOf("held"))
		began := time.Now()
		_, _, err := s.Begin(t.Context(), []store.Mark{markOf("a"), markOf("b"), markOf("c"), markOf("held")})
		wantFault(t, s, err, store.FaultBusy)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %s, want 3s", waited)
		}
		_ = held.Rollback(t.Context())
	})
}

// A handler left a goroutine behind, which waits for a row when the transaction ends. It must not
// get the row: nobody would ever free it.
func TestAGoroutineLeftBehindGetsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithLockWait(time.Hour))
		holder, u := begin(t, s), begin(t, s)
		add(t, holder.Tx(), "n", 1)
		left := make(chan error, 1)
		go func() { _, err := u.Tx().Add(t.Context(), "n", 1); left <- err }()
		synctest.Wait()
		if _, err := u.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := holder.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-left; !errors.Is(err, store.ErrEnded) {
			t.Errorf("the goroutine got %v, want ErrEnded", err)
		}
		began := time.Now()
		add(t, begin(t, s).Tx(), "n", 1)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the row was free after %s", waited)
		}
	})
}
