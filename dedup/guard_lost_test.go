package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestLostLeaseEndsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		l.extend = func(context.Context, int) error { return fmt.Errorf("memstore: %w", store.ErrLost) }
		interrupted := errors.New("interrupted")
		start := time.Now()
		r := leaseGuard(t, l, func(ctx context.Context, m dedup.Message) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), store.ErrLost) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return interrupted
		}).Process(t.Context(), message("a"))
		wantResult(t, r, dedup.Failed, store.FaultBusy)
		if !errors.Is(r.Err, store.ErrLost) || !errors.Is(r.Err, interrupted) {
			t.Errorf("the error is %v", r.Err)
		}
		if took := time.Since(start); took != lease/3 {
			t.Errorf("it was noticed after %s, want a third of the lease", took)
		}
	})
}

// A store that does not answer may have given the lease to somebody else by the time it would
// have run out. The handler's context must have ended by then, or two are at it at once.
func TestSilentStoreEndsTheHandlerBeforeTheLease(t *testing.T) {
	for what, extend := range map[string]func(ctx context.Context, n int) error{
		"fails":           func(context.Context, int) error { return errors.New("connection refused") },
		"does not answer": func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
		"answers at first": func(ctx context.Context, n int) error {
			if n <= 4 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				slow := func(int) { time.Sleep(lease/3 - 1) } // the answer takes its time, the lease does not wait for it
				silent := &leases{Store: mem, extend: extend, extended: slow, release: func(func() error) error { return errors.New("connection refused") }}
				ended := make(chan time.Time, 1)
				go leaseGuard(t, silent, func(ctx context.Context, m dedup.Message) error {
					<-ctx.Done()
					ended <- time.Now()
					return ctx.Err()
				}).Process(t.Context(), message("a"))
				synctest.Wait()

				var entered time.Time
				rival := leaseGuard(t, mem, func(context.Context, dedup.Message) error { entered = time.Now(); return nil })
				for entered.IsZero() {
					time.Sleep(100 * time.Millisecond)
					rival.Process(t.Context(), message("a"))
				}
				synctest.Wait()
				select {
				case at := <-ended:
					if at.After(entered) {
						t.Errorf("the rival was let in %s before the handler's context ended", at.Sub(entered))
					}
				default:
					t.Error("the rival was let in while the handler's context went on")
				}
			})
		})
	}
}

// Two of the three questions may fail.
func TestStoreThatIsAwayForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		l.extend = func(_ context.Context, n int) error {
			if n%2 == 1 {
				return errors.New("connection refused")
			}
			return nil
		}
		r := leaseGuard(t, l, func(ctx context.Context, m dedup.Message) error {
			time.Sleep(5 * lease)
			return ctx.Err()
		}).Process(t.Context(), message("a"))
		wantResult(t, r, dedup.Applied, 0)
	})
}

// The wall of the leases: a holder that was overtaken without noticing it has a smaller token,
// and the place of the effect refuses it.
func TestFencingTokenShutsOutAHolderThatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var account fenced
		asleep, wake := make(chan struct{}), make(chan struct{})
		// The first holder's process is suspended: its extensions do not leave it.
		suspended := &leases{Store: mem, extend: func(context.Context, int) error { <-wake; return nil }}
		first := make(chan dedup.Result)
		go func() {
			first <- leaseGuard(t, suspended, func(_ context.Context, m dedup.Message) error {
				close(asleep)
				<-wake
				return account.book("first", m.FencingToken())
			}).Process(t.Context(), message("a"))
		}()
		<-asleep
		time.Sleep(lease)
		second := leaseGuard(t, mem, func(_ context.Context, m dedup.Message) error {
			return account.book("second", m.FencingToken())
		}).Process(t.Context(), message("a"))
		wantResult(t, second, dedup.Applied, 0)
		close(wake)
		r := <-first
		if r.Outcome.Settled() || !errors.Is(r.Err, errFenced) {
			t.Errorf("the overtaken one is %s with %v", r.Outcome, r.Err)
		}
		if fmt.Sprint(account.booked) != "[second]" {
			t.Errorf("the account has %v", account.booked)
		}
	})
}

var errFenced = errors.New("a later holder was here")

// fenced is a place of effects that takes no token below one it has seen.
type fenced struct {
	highest int64
	booked  []string
}

func (f *fenced) book(what string, token int64) error {
	if token < f.highest {
		return fmt.Errorf("token %d after %d: %w", token, f.highest, errFenced)
	}
	f.highest = token
	f.booked = append(f.booked, what)
	return nil
}

func TestFencingTokenGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		var tokens []int64
		note := func(err error) dedup.HandlerFunc {
			return func(_ context.Context, m dedup.Message) error { tokens = append(tokens, m.FencingToken()); return err }
		}
		// Given back, run out, and completed and forgotten.
		leaseGuard(t, l, note(errors.New("no"))).Process(t.Context(), message("a"))
		l.release = func(func() error) error { return errors.New("connection refused") }
		leaseGuard(t, l, note(errors.New("no"))).Process(t.Context(), message("a"))
		time.Sleep(lease)
		wantResult(t, leaseGuard(t, l, note(nil)).Process(t.Context(), message("a")), dedup.Applied, 0)
		time.Sleep(2 * time.Hour)
		wantResult(t, leaseGuard(t, l, note(nil)).Process(t.Context(), message("a")), dedup.Applied, 0)
		if len(tokens) != 4 || tokens[0] <= 0 {
			t.Fatalf("the tokens are %v", tokens)
		}
		for i := range tokens[1:] {
			if tokens[i+1] <= tokens[i] {
				t.Errorf("the tokens are %v", tokens)
			}
		}
	})
	guardOn(t, memstore.New(), func(_ context.Context, _ *memstore.Tx, m dedup.Message) error {
		if m.FencingToken() != 0 {
			t.Error("a transaction has a fencing token")
		}
		return nil
	}).Process(t.Context(), message("a"))
}
