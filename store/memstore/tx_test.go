package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
