package webhooksub_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestAHandlerThatFailsOnceHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	runs := 0
	url := serve(t, newHandler(t, "payments", guard(t, s, func(context.Context, *memstore.Tx, dedup.Message) error {
		if runs++; runs == 1 {
			return errors.New("not today")
		}
		return nil
	})))
	if got := send(t, url, "msg_1"); got.status != http.StatusInternalServerError || got.body != "" {
		t.Errorf("the failure: %+v", got)
	}
	if n := s.Get("effect"); n != 0 {
		t.Errorf("%d effects of the run that failed", n)
	}
	if got := send(t, url, "msg_1"); got.status != http.StatusOK || got.header.Get(webhooksub.HeaderDuplicate) != "" {
		t.Errorf("the second attempt: %+v", got)
	}
	for range 3 {
		if got := send(t, url, "msg_1"); got.status != http.StatusOK || got.header.Get(webhooksub.HeaderDuplicate) != "true" {
			t.Errorf("a duplicate: %+v", got)
		}
	}
	if n := s.Get("effect"); n != 1 || runs != 2 {
		t.Errorf("%d effects in %d runs", n, runs)
	}
}

func TestADuplicateIsNotAnswered2xxBeforeTheFirstHasCommitted(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{"the first commits": nil, "the first rolls back": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			entered, leave := make(chan struct{}), make(chan struct{})
			var runs atomic.Int64
			url := serve(t, newHandler(t, "payments", guard(t, s, func(context.Context, *memstore.Tx, dedup.Message) error {
				if runs.Add(1) == 1 {
					close(entered)
					<-leave
					return first
				}
				return nil
			})))
			answers := make(chan response, 2)
			var wg sync.WaitGroup
			wg.Go(func() { answers <- send(t, url, "msg_1") })
			<-entered
			wg.Go(func() { answers <- send(t, url, "msg_1") })
			select {
			case got := <-answers:
				t.Errorf("answered %d before the first had ended", got.status)
			case <-time.After(200 * time.Millisecond): // There is no signal for not answering.
			}
			close(leave)
			wg.Wait()
			statuses, duplicates := map[int]int{}, 0
			for range 2 {
				got := <-answers
				statuses[got.status]++
				if got.header.Get(webhooksub.HeaderDuplicate) == "true" {
					duplicates++
				}
			}
			if first == nil && (statuses[200] != 2 || duplicates != 1 || runs.Load() != 1) {
				t.Errorf("statuses %v, %d duplicates, %d runs", statuses, duplicates, runs.Load())
			}
			if first != nil && (statuses[200] != 1 || statuses[500] != 1 || duplicates != 0 || runs.Load() != 2) {
				t.Errorf("statuses %v, %d duplicates, %d runs", statuses, duplicates, runs.Load())
			}
			if n := s.Get("effect"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func TestADuplicateThatHasWaitedLongEnoughIsAskedToComeAgain(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.WithLockWait(20 * time.Millisecond))
	entered, leave := make(chan struct{}), make(chan struct{})
	url := serve(t, newHandler(t, "payments", guard(t, s, func(context.Context, *memstore.Tx, dedup.Message) error {
		close(entered)
		<-leave
		return nil
	})))
	var wg sync.WaitGroup
	wg.Go(func() { send(t, url, "msg_1") })
	<-entered
	if got := send(t, url, "msg_1"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "5" {
		t.Errorf("busy: %+v", got)
	}
	close(leave)
	wg.Wait()
}

func TestTheSameIDFromTwoSourcesIsTwoMessages(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	g := guard(t, s, nil)
	for _, source := range []string{"payments", "shipping"} {
		url := serve(t, newHandler(t, source, g))
		for _, id := range []string{"msg_1", "0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e"} {
			for range 2 {
				if got := send(t, url, id); got.status != http.StatusOK {
					t.Errorf("%s: %+v", source, got)
				}
			}
		}
	}
	if n := s.Get("effect"); n != 4 {
		t.Errorf("%d effects, want 4", n)
	}
}

func TestALateRetryWithAFreshTimestampIsADuplicate(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	now := time.Now()
	url := serve(t, newHandler(t, "payments", guard(t, s, nil), webhooksub.WithClock(func() time.Time { return now })))
	for _, wait := range []time.Duration{0, 20 * time.Hour, 56 * time.Hour} {
		now = now.Add(wait)
		got := do(t, signed(t, url, "msg_1", body, now))
		if got.status != http.StatusOK || (got.header.Get(webhooksub.HeaderDuplicate) == "true") != (wait > 0) {
			t.Errorf("after %s: %+v", wait, got)
		}
	}
	if n := s.Get("effect"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestWorkThatIsSlowerThanTheSendersPatienceIsDoneAllTheSame(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan webhooksub.Delivery, 2)
	url := serve(t, newHandler(t, "payments", guard(t, s, func(ctx context.Context, _ *memstore.Tx, _ dedup.Message) error {
		close(entered)
		<-leave
		return ctx.Err()
	}), webhooksub.WithObserver(func(_ context.Context, d webhooksub.Delivery) { done <- d })))
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		transport := new(http.Transport)
		defer transport.CloseIdleConnections()
		_, err := transport.RoundTrip(signed(t, url, "msg_1", body, time.Now()).WithContext(ctx))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the sender got an answer, error %v", err)
		}
	}()
	<-entered
	hangUp()
	<-gone
	close(leave)
	if d := <-done; d.Outcome != dedup.Applied {
		t.Errorf("the outcome is %s: %v", d.Outcome, d.Err)
	}
	if got := send(t, url, "msg_1"); got.status != http.StatusOK || got.header.Get(webhooksub.HeaderDuplicate) != "true" {
		t.Errorf("the next attempt: %+v", got)
	}
}

func TestAMessageThatFailsForGoodIsBuriedAndAnswered200(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	url := serve(t, newHandler(t, "payments", guard(t, s, func(context.Context, *memstore.Tx, dedup.Message) error {
		return dedup.Permanent(errors.New("no such account"))
	})))
	if got := send(t, url, "msg_1"); got.status != http.StatusOK {
		t.Errorf("answer: %+v", got)
	}
	if got := send(t, url, "msg_1"); got.header.Get(webhooksub.HeaderDuplicate) != "true" {
		t.Errorf("delivered again: %+v", got)
	}
	dead, err := s.ListDead(t.Context(), store.LetterFilter{Consumer: "billing"}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(dead) != 1 || string(dead[0].Body) != body || dead[0].Reason != "no such account" ||
		dead[0].Log != "payments" || string(dead[0].KeyText) != "payments/msg_1" {
		t.Errorf("dead letters: %+v", dead)
	}
	if n := s.Get("effect"); n != 0 {
		t.Errorf("%d effects", n)
	}
}

func TestAMessageThatCannotBeBuriedStaysWithItsSender(t *testing.T) {
	t.Parallel()
	// Without a key there is no mark to bury it under.
	s := memstore.New()
	g, err := dedup.NewTx(s, "billing", dedup.FromJSON("/payment/id"), dedup.Forever, func(context.Context, *memstore.Tx, dedup.Message) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]dedup.Processor{
		"no key":           g,
		"no dead letters":  &processor{result: dedup.Result{Outcome: dedup.Failed, Fault: 1, Err: dedup.Permanent(errors.New("no"))}},
		"leases bury none": leases(t),
	} {
		got := send(t, serve(t, newHandler(t, "payments", p)), "msg_1")
		if got.status != http.StatusUnprocessableEntity || got.header.Get("webhook-delivery") != "abort-message" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func leases(t *testing.T) dedup.Processor {
	t.Helper()
	g, err := dedup.New(memstore.New(), "billing", webhooksub.ID(), func(context.Context, dedup.Message) error {
		return dedup.Permanent(errors.New("no"))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
