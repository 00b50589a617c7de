package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

var (
	errBad       = errors.New("bad")
	policy       = consumers.Policy{MaxAttempts: 3, MinDelay: 100 * time.Millisecond, MaxDelay: 10 * time.Second}
	errPermanent = fmt.Errorf("wrapped: %w", dedup.Permanent(errBad))
	errKeyless   = fmt.Errorf("wrapped: %w", &dedup.KeyError{Err: dedup.ErrNoKey})
	errPatient   = fmt.Errorf("wrapped: %w", dedup.RetryAfter(42*time.Second, errBad))
)

func failed(f store.Fault, err error) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: f, Err: err}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name   string
		result dedup.Result
		// With attempts left, and after the result that uses up the last one.
		left, none consumers.Action
		spent      bool
	}{
		{"applied", dedup.Result{Outcome: dedup.Applied}, consumers.Ack, consumers.Ack, false},
		{"duplicate", dedup.Result{Outcome: dedup.Duplicate}, consumers.Ack, consumers.Ack, false},
		{"buried", dedup.Result{Outcome: dedup.Buried}, consumers.Ack, consumers.Ack, false},
		{"parked", dedup.Result{Outcome: dedup.Parked}, consumers.Ack, consumers.Ack, false},
		{"mismatched", dedup.Result{Outcome: dedup.Mismatched, Fault: store.FaultHandler, Err: &dedup.MismatchError{Key: []byte("k")}}, consumers.Bury, consumers.Bury, false},
		{"late", dedup.Result{Outcome: dedup.Late, Fault: store.FaultHandler, Err: fmt.Errorf("wrapped: %w", dedup.ErrLate)}, consumers.Bury, consumers.Bury, false},
		{"unknown", dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: errBad}, consumers.Retry, consumers.Retry, false},
		{"unknown with a permanent error", dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultHandler, Err: errPermanent}, consumers.Retry, consumers.Retry, false},
		{"no outcome", dedup.Result{Fault: store.FaultHandler, Err: errBad}, consumers.Retry, consumers.Bury, true},
		{"handler", failed(store.FaultHandler, errBad), consumers.Retry, consumers.Bury, true},
		{"handler that asks for time", failed(store.FaultHandler, errPatient), consumers.Retry, consumers.Bury, true},
		{"permanent", failed(store.FaultHandler, errPermanent), consumers.Bury, consumers.Bury, true},
		{"no key", failed(store.FaultHandler, errKeyless), consumers.Bury, consumers.Bury, true},
		{"conflict", failed(store.FaultConflict, errBad), consumers.Retry, consumers.Retry, false},
		{"busy", failed(store.FaultBusy, errBad), consumers.Retry, consumers.Retry, false},
		{"outage", failed(store.FaultOutage, errBad), consumers.Retry, consumers.Retry, false},
		{"setup", failed(store.FaultSetup, errBad), consumers.Stop, consumers.Stop, false},
		{"canceled", failed(store.FaultCanceled, context.Canceled), consumers.Stop, consumers.Stop, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for spent, want := range map[int]consumers.Action{0: c.left, 1: c.left, 2: c.none, 7: c.none} {
				d := policy.Decide(c.result, spent, spent+1)
				if d.Action != want || d.Spent != c.spent {
					t.Errorf("after %d attempts: %s, spent %t; want %s, %t", spent, d.Action, d.Spent, want, c.spent)
				}
				if (d.After > 0) != (d.Action == consumers.Retry) {
					t.Errorf("after %d attempts: %s after %s", spent, d.Action, d.After)
				}
			}
		})
	}
}

func TestDelays(t *testing.T) {
	if d := policy.Decide(failed(store.FaultHandler, errPatient), 0, 1); d.After != 42*time.Second {
		t.Errorf("a handler that asks for 42 s waits %s", d.After)
	}
	// The delay doubles and is spread by half of itself: the n-th lies around MinDelay·2^(n-1).
	for n, middle := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 6: 3200 * time.Millisecond} {
		for range 50 {
			if d := policy.Delay(n); d < middle/2 || d > middle*3/2+time.Millisecond {
				t.Fatalf("delay %d is %s, which is not within half of %s", n, d, middle)
			}
		}
	}
	for _, n := range []int{-1, 0, 30, 1 << 40} {
		if d := policy.Delay(n); d < policy.MinDelay/2 || d > policy.MaxDelay {
			t.Errorf("delay %d is %s", n, d)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := consumers.DefaultPolicy().Validate(); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]consumers.Policy{
		"1 is the least":             {MinDelay: 1, MaxDelay: 1},
		"must be above zero":         {MaxAttempts: 1, MaxDelay: 1},
		"must not be below MinDelay": {MaxAttempts: 1, MinDelay: 2, MaxDelay: 1},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}
