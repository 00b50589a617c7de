package storetest

import (
	"context"
	"runtime/debug"
	"testing"
	"time"
)

// patience bounds every call that a case makes. A store that hangs fails, it does not
// hold up the others.
const patience = 30 * time.Second

// grace is given to calls that should be found waiting, where the harness cannot tell. A
// store on which it is too short passes cases that it should not; it never fails others.
const grace = 100 * time.Millisecond

// rule is one sentence of a contract and the test that holds a store to it.
type rule[Place any] struct {
	name string
	says string
	test func(e *exam, p Place)
}

// exam is one case under way.
type exam struct {
	*testing.T
	says string
}

// failf ends the case. It is called by the case's own goroutine only.
func (e *exam) failf(format string, args ...any) {
	e.Helper()
	e.Fatalf("rule: "+e.says+"\n\tgot: "+format, args...)
}

// check ends the case on an error that nothing in it called for.
func (e *exam) check(act string, err error) {
	e.Helper()
	if err != nil {
		e.failf("%s: unexpected error: %v", act, err)
	}
}

// around runs a case. A nil one runs it as it is.
type around func(t *testing.T, test func(t *testing.T))

func examine[Place any](t *testing.T, rules []rule[Place], wrap around, fresh func(t *testing.T) Place) {
	t.Helper()
	if wrap == nil {
		wrap = func(t *testing.T, test func(t *testing.T)) { test(t) }
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			wrap(t, func(t *testing.T) {
				r.test(&exam{t, r.says}, fresh(t))
			})
		})
	}
}

// within returns what f returns, or ends the case when f takes too long.
func within[R any](e *exam, act string, f func(ctx context.Context) R) R {
	e.Helper()
	select {
	case r := <-begun(e, f):
		return r
	case <-time.After(2 * patience):
		e.failf("%s: no answer after %s", act, 2*patience)
		panic("unreachable")
	}
}

// begun runs f beside the case. Its context ends when patience does.
func begun[R any](e *exam, f func(ctx context.Context) R) <-chan R {
	answer := make(chan R, 1)
	go func() {
		// A store that panics fails its case and not the process, which has others to examine.
		defer func() {
			if v := recover(); v != nil {
				e.Errorf("rule: %s\n\tgot: panic: %v\n%s", e.says, v, debug.Stack())
				var none R
				answer <- none
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer <- f(ctx)
	}()
	return answer
}

// ended returns a context that has ended already.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// pause gives a call that may wait or not the time to do either.
func (e *exam) pause(done func() bool) {
	for begin := time.Now(); !done() && time.Since(begin) < grace; {
		time.Sleep(grace / 50)
	}
}
