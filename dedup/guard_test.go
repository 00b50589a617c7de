package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

const lease = 30 * time.Second

func leaseGuard(t *testing.T, s store.Leases, h dedup.HandlerFunc) *dedup.Guard {
	t.Helper()
	g, err := dedup.New(s, "consumer", dedup.FromHeader("id"), h, dedup.WithLease(lease), dedup.WithKeep(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func nothing(context.Context, dedup.Message) error { return nil }

func TestGuardHandlesOnceAndRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, runs := newLeases(), 0
		g := leaseGuard(t, l, func(ctx context.Context, m dedup.Message) error { runs++; return nil })
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Applied, 0)
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Duplicate, 0)
		wantResult(t, g.Process(t.Context(), message("b")), dedup.Applied, 0)
		other, err := dedup.New(l, "consumes", dedup.FromHeader("id"), nothing)
		if err != nil {
			t.Fatal(err)
		}
		wantResult(t, other.Process(t.Context(), message("a")), dedup.Applied, 0)
		time.Sleep(time.Hour - time.Second)
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Duplicate, 0)
		time.Sleep(2 * time.Second)
		// The promise ends with the keep time.
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Applied, 0)
		if runs != 3 {
			t.Errorf("the handler ran %d times, want 3", runs)
		}
	})
}

func TestGuardLetsOneInAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		g := leaseGuard(t, l, func(ctx context.Context, m dedup.Message) error {
			time.Sleep(10 * lease) // much longer than a lease: it is extended
			return ctx.Err()
		})
		first := make(chan dedup.Result)
		go func() { first <- g.Process(t.Context(), message("a")) }()
		for range 100 {
			time.Sleep(lease / 11)
			r := g.Process(t.Context(), message("a"))
			wantResult(t, r, dedup.Failed, store.FaultBusy)
			var until time.Time
			if _, err := fmt.Sscanf(r.Err.Error(), "dedup: the message is being handled elsewhere until %s", &timeText{&until}); err != nil {
				t.Fatalf("the error is %q: %v", r.Err, err)
			}
			if left := time.Until(until); left <= 0 || left > lease {
				t.Errorf("it says that it ends in %s", left)
			}
		}
		wantResult(t, <-first, dedup.Applied, 0)
		if l.extends < 29 || l.extends > 31 {
			t.Errorf("%d extensions of ten leases, want three in each", l.extends)
		}
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Duplicate, 0)
	})
}

// timeText scans a time.
type timeText struct{ at *time.Time }

func (t *timeText) Scan(state fmt.ScanState, _ rune) error {
	token, err := state.Token(true, nil)
	if err == nil {
		*t.at, err = time.Parse(time.RFC3339, string(token))
	}
	return err
}

func TestGuardGivesBackWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		declined := errors.New("card declined")
		for what, c := range map[string]struct {
			h     dedup.HandlerFunc
			check func(error) bool
		}{
			"error":     {func(context.Context, dedup.Message) error { return declined }, func(err error) bool { return errors.Is(err, declined) }},
			"panic":     {func(context.Context, dedup.Message) error { panic(declined) }, func(err error) bool { var p *dedup.PanicError; return errors.As(err, &p) && errors.Is(err, declined) }},
			"permanent": {func(context.Context, dedup.Message) error { return dedup.Permanent(declined) }, dedup.IsPermanent},
		} {
			l := newLeases()
			r := leaseGuard(t, l, c.h).Process(t.Context(), message("a"))
			wantResult(t, r, dedup.Failed, store.FaultHandler)
			if !c.check(r.Err) {
				t.Errorf("%s: the error is %v", what, r.Err)
			}
			wantResult(t, leaseGuard(t, l, nothing).Process(t.Context(), message("a")), dedup.Applied, 0)
			if want := []string{"claim fresh, takeover false", "release: <nil>", "claim fresh, takeover false", "complete: <nil>"}; !slices.Equal(l.calls, want) {
				t.Errorf("%s: %q", what, l.calls)
			}
		}
	})
}

// synctest finds what is left running: the test would not end.
func TestGuardAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		g := leaseGuard(t, l, func(context.Context, dedup.Message) error { runtime.Goexit(); return nil })
		done := make(chan struct{})
		go func() { defer close(done); g.Process(t.Context(), message("a")) }()
		<-done
		wantResult(t, leaseGuard(t, l, nothing).Process(t.Context(), message("a")), dedup.Applied, 0)
	})
}

func TestGuardWhoseContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		ctx, cancel := context.WithCancel(t.Context())
		r := leaseGuard(t, l, func(ctx context.Context, m dedup.Message) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}).Process(ctx, message("a"))
		wantResult(t, r, dedup.Failed, store.FaultCanceled)
		wantResult(t, leaseGuard(t, l, nothing).Process(ctx, message("a")), dedup.Failed, store.FaultCanceled)
		// It was given back all the same, so nobody waits for the lease to run out.
		wantResult(t, leaseGuard(t, l, nothing).Process(t.Context(), message("a")), dedup.Applied, 0)

		// An effect that has taken place is recorded although the context has ended.
		ctx, cancel = context.WithCancel(t.Context())
		r = leaseGuard(t, l, func(context.Context, dedup.Message) error { cancel(); return nil }).Process(ctx, message("b"))
		wantResult(t, r, dedup.Applied, 0)
		wantResult(t, leaseGuard(t, l, nothing).Process(t.Context(), message("b")), dedup.Duplicate, 0)
	})
}

func TestGuardWhoseStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for fault, want := range map[store.Fault]store.Fault{
			// What a store of leases says is never the message's fault.
			store.FaultHandler: store.FaultOutage, store.FaultOutage: store.FaultOutage, store.FaultSetup: store.FaultSetup,
			store.FaultConflict: store.FaultConflict, store.FaultCanceled: store.FaultOutage,
		} {
			l := newLeases()
			l.claim = func() error { return &faulty{fault} }
			wantResult(t, leaseGuard(t, l, nothing).Process(t.Context(), message("a")), dedup.Failed, want)
		}
		// A store that cannot tell.
		mute := struct{ store.Leases }{&leases{Store: memstore.New(), claim: func() error { return errors.New("no route to host") }}}
		wantResult(t, leaseGuard(t, mute, nothing).Process(t.Context(), message("a")), dedup.Failed, store.FaultOutage)
	})
}

// The effect has taken place: nobody may say that it failed.
func TestGuardThatCannotRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stored := range []bool{false, true} {
			l := newLeases()
			l.complete = func(real func() error) error {
				if stored {
					_ = real()
				}
				return &faulty{store.FaultOutage}
			}
			r := leaseGuard(t, l, nothing).Process(t.Context(), message("a"))
			wantResult(t, r, dedup.Unknown, store.FaultOutage)
			if want := "dedup: the effect took place and could not be recorded: fault: outage"; r.Err.Error() != want {
				t.Errorf("the error is %q", r.Err)
			}
			l.complete = nil
			next := leaseGuard(t, l, nothing).Process(t.Context(), message("a"))
			if stored {
				wantResult(t, next, dedup.Duplicate, 0)
				continue
			}
			wantResult(t, next, dedup.Failed, store.FaultBusy)
			time.Sleep(lease)
			wantResult(t, leaseGuard(t, l, nothing).Process(t.Context(), message("a")), dedup.Applied, 0)
		}
	})
}

// The lease's key holds both the identity and its stored form: neither alone tells all apart.
func TestGuardTellsKeysApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		both, err := dedup.New(l, "consumer", dedup.Composite(dedup.FromHeader("a"), dedup.FromHeader("b")), nothing)
		if err != nil {
			t.Fatal(err)
		}
		// Their texts are equal.
		wantResult(t, both.Process(t.Context(), headers("a", "x/y", "b", "z")), dedup.Applied, 0)
		wantResult(t, both.Process(t.Context(), headers("a", "x", "b", "y/z")), dedup.Applied, 0)
		// Their sixteen bytes are equal.
		victim, chosen := collidingIDs(t)
		g := leaseGuard(t, l, nothing)
		wantResult(t, g.Process(t.Context(), message(victim)), dedup.Applied, 0)
		wantResult(t, g.Process(t.Context(), message(chosen)), dedup.Applied, 0)
	})
}
