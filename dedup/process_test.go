package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// The first wall: the mark comes before the handler, and both are in one transaction.
func TestMarkThenHandlerThenCommit(t *testing.T) {
	t.Parallel()
	b := newBent()
	g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		b.note("handler")
		return add(ctx, tx, m)
	})
	wantResult(t, g.Process(t.Context(), message("a")), dedup.Applied, 0)
	wantResult(t, g.Process(t.Context(), message("a")), dedup.Duplicate, 0)
	wantRecord(t, b, "begin [new]", "handler", "commit: committed", "begin [seen]", "rollback")
	wantEffects(t, b, map[string]int64{"a": 1})
	b.idle(t)
}

func TestRivalsHaveOneEffect(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var mu sync.Mutex
	runs := 0
	g := guardOn(t, s, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		mu.Lock()
		runs++
		mu.Unlock()
		runtime.Gosched()
		return add(ctx, tx, m)
	})
	var wg sync.WaitGroup
	outcomes := map[dedup.Outcome]int{}
	for range 32 {
		wg.Go(func() {
			r := g.Process(t.Context(), message("a"))
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Outcome]++
		})
	}
	wg.Wait()
	if outcomes[dedup.Applied] != 1 || outcomes[dedup.Duplicate] != 31 || runs != 1 || s.Get("a") != 1 {
		t.Errorf("outcomes %v, %d runs, %d effects", outcomes, runs, s.Get("a"))
	}
}

func TestFailureUndoesEverything(t *testing.T) {
	t.Parallel()
	declined := errors.New("card declined")
	var none map[string]int
	for what, c := range map[string]struct {
		end   func() error
		check func(err error) bool
	}{
		"error":                 {func() error { return fmt.Errorf("charge: %w", declined) }, func(err error) bool { return errors.Is(err, declined) }},
		"panic":                 {func() error { panic("lost my way") }, isPanic("lost my way")},
		"panic with error":      {func() error { panic(declined) }, func(err error) bool { return errors.Is(err, declined) && isPanic(declined)(err) }},
		"panic with nil":        {func() error { panic(nil) }, func(err error) bool { var p *dedup.PanicError; return errors.As(err, &p) }}, //nolint:govet // It is what is tested.
		"panic of the run time": {func() error { none["a"] = 1; return nil }, func(err error) bool { var e runtime.Error; return errors.As(err, &e) }},
	} {
		for _, how := range []string{"Process", "ProcessEach", "ProcessBatch"} {
			b := newBent()
			g := guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
				if err := add(ctx, tx, m); err != nil {
					return err
				}
				return c.end()
			})
			r := map[string]func() dedup.Result{
				"Process":      func() dedup.Result { return g.Process(t.Context(), message("a")) },
				"ProcessEach":  func() dedup.Result { return g.ProcessEach(t.Context(), messages("a", "b"))[0] },
				"ProcessBatch": func() dedup.Result { return g.ProcessBatch(t.Context(), messages("a", "b"))[0] },
			}[how]()
			wantResult(t, r, dedup.Failed, store.FaultHandler)
			if !c.check(r.Err) {
				t.Errorf("%s: the error is %v", what, r.Err)
			}
			wantEffects(t, b, map[string]int64{"a": 0, "b": 0})
			b.idle(t)
			// The mark has gone, too.
			wantResult(t, guardOn(t, b, add).Process(t.Context(), message("a")), dedup.Applied, 0)
		}
	}
}

func isPanic(value any) func(error) bool {
	return func(err error) bool {
		var p *dedup.PanicError
		return errors.As(err, &p) && p.Value == value && strings.Contains(string(p.Stack), "process_test.go") &&
			p.Error() == fmt.Sprintf("handler panicked: %v", value)
	}
}

// A test's FailNow in a handler ends the goroutine without a return and without a panic.
func TestGoexitLeavesNoTransactionOpen(t *testing.T) {
	t.Parallel()
	b := newBent()
	exit := func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		_ = add(ctx, tx, m)
		runtime.Goexit()
		return nil
	}
	g := guardOn(t, b, exit)
	batch, err := dedup.NewTxBatch(b, "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, ms []dedup.Message) error {
		return exit(ctx, tx, ms[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, act := range []func(){
		func() { g.Process(t.Context(), message("a")) },
		func() { g.ProcessEach(t.Context(), messages("a", "b")) },
		func() { g.ProcessBatch(t.Context(), messages("a", "b")) },
		func() { batch.ProcessBatch(t.Context(), messages("a", "b")) },
	} {
		done := make(chan struct{})
		go func() { defer close(done); act() }()
		<-done
		b.idle(t)
		wantEffects(t, b, map[string]int64{"a": 0})
	}
}

func TestKeyFunctionThatFailsOrPanics(t *testing.T) {
	t.Parallel()
	for what, key := range map[string]dedup.KeyFunc{
		"error": func(dedup.Message) (dedup.Key, error) { return dedup.Key{}, errors.New("no such field") },
		"panic": func(dedup.Message) (dedup.Key, error) { panic("index out of range") },
		"zero":  func(dedup.Message) (dedup.Key, error) { return dedup.Key{}, nil },
	} {
		b := newBent()
		g, err := dedup.NewTx(b, "consumer", key, dedup.Forever, txHandler(add))
		if err != nil {
			t.Fatal(err)
		}
		lease, err := dedup.New(memstore.New(), "consumer", key, func(context.Context, dedup.Message) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []dedup.Result{
			g.Process(t.Context(), message("a")), g.ProcessBatch(t.Context(), messages("a", "b"))[0], lease.Process(t.Context(), message("a")),
		} {
			wantResult(t, r, dedup.Failed, store.FaultHandler)
			var k *dedup.KeyError
			if !errors.As(r.Err, &k) || !dedup.IsPermanent(r.Err) || !strings.HasPrefix(r.Err.Error(), "dedup: key of the message: ") {
				t.Errorf("%s: the error is %v", what, r.Err)
			}
			if (what == "zero") != errors.Is(r.Err, dedup.ErrNoKey) {
				t.Errorf("%s: the error is %v", what, r.Err)
			}
		}
		wantRecord(t, b)
	}
}

func TestHandlersSpeakThroughWrappedErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such account")
	err := fmt.Errorf("book: %w", dedup.Permanent(fmt.Errorf("debit: %w", cause)))
	if !dedup.IsPermanent(err) || !errors.Is(err, cause) || err.Error() != "book: debit: no such account" {
		t.Errorf("a permanent error is %v", err)
	}
	err = fmt.Errorf("call: %w", dedup.RetryAfter(time.Minute, cause))
	if after, ok := dedup.RetryDelay(err); !ok || after != time.Minute || !errors.Is(err, cause) || err.Error() != "call: no such account" {
		t.Errorf("a delayed error is %v, %s", err, after)
	}
	both := dedup.RetryAfter(time.Second, dedup.Permanent(cause))
	if _, ok := dedup.RetryDelay(both); !ok || !dedup.IsPermanent(both) {
		t.Error("one hides the other")
	}
	if dedup.Permanent(nil) != nil || dedup.RetryAfter(time.Second, nil) != nil {
		t.Error("nil has become an error")
	}
	if _, ok := dedup.RetryDelay(cause); ok || dedup.IsPermanent(cause) || dedup.IsPermanent(nil) {
		t.Error("a plain error speaks")
	}
	// They pass through a guard as they are, and a permanent one is the handler's whatever it wraps.
	b := newBent()
	r := guardOn(t, b, except(map[string]error{"a": dedup.Permanent(&faulty{store.FaultConflict})})).Process(t.Context(), message("a"))
	wantResult(t, r, dedup.Failed, store.FaultHandler)
	if !dedup.IsPermanent(r.Err) || b.begins != 1 {
		t.Errorf("the error is %v after %d transactions", r.Err, b.begins)
	}
}

func TestCanceledContextIsNobodysFault(t *testing.T) {
	t.Parallel()
	ran := false
	cancelInside := func(cancel context.CancelFunc) txHandler {
		return func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			ran = true
			cancel()
			return errors.Join(errors.New("interrupted"), add(ctx, tx, m))
		}
	}
	for _, how := range []string{"Process", "ProcessBatch"} {
		process := func(g *dedup.TxGuard[*memstore.Tx], ctx context.Context) dedup.Result {
			if how == "Process" {
				return g.Process(ctx, message("a"))
			}
			return g.ProcessBatch(ctx, messages("a", "b"))[0]
		}
		b := newBent()
		ctx, cancel := context.WithCancel(t.Context())
		r := process(guardOn(t, b, cancelInside(cancel)), ctx)
		wantResult(t, r, dedup.Failed, store.FaultCanceled)

		ran = false
		r = process(guardOn(t, b, cancelInside(cancel)), ctx)
		wantResult(t, r, dedup.Failed, store.FaultCanceled)
		if ran {
			t.Errorf("%s: the handler ran though the context had ended", how)
		}
		b.idle(t)
		wantEffects(t, b, map[string]int64{"a": 0})

		// A handler that ended well is committed: its work is done.
		ctx, cancel = context.WithCancel(t.Context())
		r = process(guardOn(t, b, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			defer cancel()
			return add(ctx, tx, m)
		}), ctx)
		if how == "Process" {
			wantResult(t, r, dedup.Applied, 0)
			wantEffects(t, b, map[string]int64{"a": 1})
		}
	}
}
