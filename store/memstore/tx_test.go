package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// begin opens a transaction that a test ends.
func begin(t *testing.T, s *memstore.Store, marks ...store.Mark) store.Unit[*memstore.Tx] {
	t.Helper()
	u, _, err := s.Begin(t.Context(), marks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Rollback(context.Background()) })
	return u
}

func markOf(name string) store.Mark {
	return store.Mark{Scope: 1, Key: store.DigestKey([]byte(name))}
}

func add(t *testing.T, tx *memstore.Tx, name string, n int64) {
	t.Helper()
	if _, err := tx.Add(t.Context(), name, n); err != nil {
		t.Fatal(err)
	}
}

func wantFault(t *testing.T, s interface{ Fault(error) store.Fault }, err error, want store.Fault) {
	t.Helper()
	if got := s.Fault(err); got != want {
		t.Errorf("the error %v has fault %q, want %q", err, got, want)
	}
}

func TestATransactionReadsItsOwnWritesAndNobodyElseDoes(t *testing.T) {
	s := memstore.New()
	u := begin(t, s)
	add(t, u.Tx(), "n", 3)
	add(t, u.Tx(), "n", 4)
	other := begin(t, s)

	if got, err := u.Tx().Get("n"); got != 7 || err != nil {
		t.Errorf("the transaction reads %d, %v", got, err)
	}
	if got, err := other.Tx().Get("n"); got != 0 || err != nil {
		t.Errorf("another one reads %d, %v", got, err)
	}
	if got := s.Get("n"); got != 0 {
		t.Errorf("before the commit the store has %d", got)
	}
	if _, err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := other.Tx().Get("n"); got != 7 {
		t.Errorf("after the commit another one reads %d", got)
	}
}

func TestRivalsOfARowAddOneAfterTheOther(t *testing.T) {
	s := memstore.New()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error {
				n, err := tx.Get("n")
				if err != nil {
					return err
				}
				if n, err = tx.Add(ctx, "n", 1); err != nil {
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

func TestASpoiltTransactionRefusesEverything(t *testing.T) {
	s := memstore.New()
	u := begin(t, s)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.Tx().Add(cancelled, "n", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Add under an ended context: %v", err)
	}
	for act, err := range acts(s, u.Tx()) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s in a spoilt transaction: %v", act, err)
		}
		wantFault(t, s, err, store.FaultCanceled)
	}
}

func TestAMarkThatCouldNotBeHadSpoilsTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		begin(t, s, markOf("m"))
		u := begin(t, s)
		add(t, u.Tx(), "n", 1)
		_, err := s.MarkTx(t.Context(), u.Tx(), []store.Mark{markOf("m")})
		wantFault(t, s, err, store.FaultBusy)
		end, err := u.Commit(t.Context())
		if end != store.RolledBack {
			t.Errorf("the commit is %q, %v", end, err)
		}
		wantFault(t, s, err, store.FaultBusy)
		if n := s.Get("n"); n != 0 {
			t.Errorf("n is %d", n)
		}
	})
}

func TestAnEndedTransactionRefusesEverything(t *testing.T) {
	s := memstore.New()
	u := begin(t, s)
	tx := u.Tx()
	if _, err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for act, err := range acts(s, tx) {
		if !errors.Is(err, store.ErrEnded) {
			t.Errorf("%s in an ended transaction: %v", act, err)
		}
	}
}

func TestATransactionOfAnotherStoreIsRefused(t *testing.T) {
	s, u := memstore.New(), begin(t, memstore.New())
	if _, err := s.MarkTx(t.Context(), u.Tx(), []store.Mark{markOf("m")}); err == nil {
		t.Error("MarkTx: no error")
	}
	if err := s.BuryTx(t.Context(), u.Tx(), store.DeadLetter{}); err == nil {
		t.Error("BuryTx: no error")
	}
	if err := s.AppendTx(t.Context(), u.Tx(), []store.Event{{}}); err == nil {
		t.Error("AppendTx: no error")
	}
}

// acts tries all that can be done with a transaction.
func acts(s *memstore.Store, tx *memstore.Tx) map[string]error {
	ctx := context.Background()
	_, get := tx.Get("n")
	_, add := tx.Add(ctx, "n", 1)
	_, mark := s.MarkTx(ctx, tx, []store.Mark{markOf("late")})
	return map[string]error{
		"Get": get, "Add": add, "Put": tx.Put(ctx, "n", 1),
		"MarkTx": mark, "BuryTx": s.BuryTx(ctx, tx, store.DeadLetter{}),
		"AppendTx": s.AppendTx(ctx, tx, []store.Event{{}}),
	}
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

func TestInTx(t *testing.T) {
	s := memstore.New()
	put := func(name string, end func() error) func(context.Context, *memstore.Tx) error {
		return func(ctx context.Context, tx *memstore.Tx) error {
			if err := tx.Put(ctx, name, 1); err != nil {
				return err
			}
			return end()
		}
	}
	if err := s.InTx(t.Context(), put("committed", func() error { return nil })); err != nil {
		t.Error(err)
	}
	declined := errors.New("declined")
	if err := s.InTx(t.Context(), put("failed", func() error { return declined })); err != declined {
		t.Errorf("InTx returned %v, want the function's error", err)
	}
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v, want the function's panic", v)
			}
		}()
		_ = s.InTx(t.Context(), put("panicked", func() error { panic("boom") }))
	}()
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.InTx(ctx, put("cancelled", func() error { cancel(); return nil })); !errors.Is(err, context.Canceled) {
		t.Errorf("InTx returned %v, want context.Canceled", err)
	}
	for name, want := range map[string]int64{"committed": 1, "failed": 0, "panicked": 0, "cancelled": 0} {
		if got := s.Get(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
		// What was rolled back holds no row either.
		if err := s.InTx(t.Context(), put(name, func() error { return nil })); err != nil {
			t.Error(err)
		}
	}
}

func TestFaultsOfErrorsFromElsewhere(t *testing.T) {
	s := memstore.New()
	wantFault(t, s, nil, 0)
	wantFault(t, s, errors.New("card declined"), store.FaultHandler)
	wantFault(t, s, context.Canceled, store.FaultCanceled)
	// A handler may have had a deadline of its own.
	wantFault(t, s, context.DeadlineExceeded, store.FaultHandler)
}

// Consumers use the buffers of their messages again.
func TestLettersAreCopies(t *testing.T) {
	s := memstore.New()
	d := store.DeadLetter{
		Consumer: "billing", KeyText: []byte("key"), MessageKey: []byte("customer"), Body: []byte("body"),
		Headers: []store.Header{{Key: "id", Value: []byte("1")}},
	}
	want := fmt.Sprintf("%q", []any{d.KeyText, d.MessageKey, d.Body, d.Headers})
	smear := func(d store.DeadLetter) {
		clear(d.KeyText)
		clear(d.MessageKey)
		clear(d.Body)
		clear(d.Headers[0].Value)
		d.Headers[0].Key = "smeared"
	}
	check := func(what string, d store.DeadLetter, err error) {
		t.Helper()
		if got := fmt.Sprintf("%q", []any{d.KeyText, d.MessageKey, d.Body, d.Headers}); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", what, got, err, want)
		}
	}
	err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error {
		err := s.BuryTx(ctx, tx, d)
		smear(d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.GetDead(t.Context(), 1)
		check("GetDead", got, err)
		smear(got)
		all, err := s.ListDead(t.Context(), "", 0, 1)
		check("ListDead", all[0], err)
		smear(all[0])
	}
}

func TestOptionsThatCannotWorkPanic(t *testing.T) {
	for _, o := range []memstore.Option{
		memstore.WithLockWait(0), memstore.WithLockWait(-time.Second),
		memstore.WithMaxLeases(0), memstore.WithMaxLeases(63),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			memstore.New(o)
		}()
	}
}
