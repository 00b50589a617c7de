package webhookpub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store"
)

func withTopic(topic string, n int) []store.Event {
	var events []store.Event
	for i := range n {
		events = append(events, event(topic, "", fmt.Sprint(i)))
	}
	return events
}

// hang answers nothing until the test ends or the client has gone.
func hang(t *testing.T) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}
}

// drip answers at once and sends a byte now and then.
func drip(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(".")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func TestAfterTheStatusTheRestOfTheAnswerIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	p := publisher(t, []*receiver{receive(t, drip(200))})
	began := time.Now()
	expect(t, p.Publish(t.Context(), withTopic("a", 1)), outbox.Confirmed)
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestTheTimeoutCoversAnAnswerThatDripsIn(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want outbox.Verdict
	}{
		"no answer":        {hang(t), outbox.Unreached},
		"body after a 200": {drip(200), outbox.Confirmed},
		"body after a 404": {drip(404), outbox.RefusedOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := publisher(t, []*receiver{receive(t, c.h)}, webhookpub.WithTimeout(timeout))
			began := time.Now()
			expect(t, p.Publish(t.Context(), withTopic("a", 1)), c.want)
			if took := time.Since(began); took < timeout || took > 10*timeout {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestAnEndlessAnswerIsReadOnlyInPartAndCleaned(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	r := receive(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		chunk := []byte(strings.Repeat("no\x00\xff\x1b[31m\n", 100))
		for r.Context().Err() == nil {
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	var last webhookpub.Attempt
	p := publisher(t, []*receiver{r}, webhookpub.WithObserver(func(_ context.Context, a webhookpub.Attempt) { last = a }))
	expect(t, p.Publish(t.Context(), withTopic("a", 1)), outbox.RefusedOnce)
	if len(last.Body) == 0 || len(last.Body) > 1024 || !utf8.ValidString(last.Body) || strings.ContainsAny(last.Body, "\x00\x1b\uFFFD") || !strings.HasPrefix(last.Body, "no[31m\n") {
		t.Errorf("kept %d bytes: %q", len(last.Body), last.Body)
	}
	r.Close() // It waits for the handler, which ends when the client has hung up.
	if n := written.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

func TestOneHangingEndpointHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	slow, quick := receive(t, hang(t)), receive(t, nil)
	var mu sync.Mutex
	var done []time.Duration
	began := time.Now()
	p := publisher(t, []*receiver{slow, quick}, webhookpub.WithTimeout(2*time.Second), webhookpub.WithConcurrency(64, 4),
		webhookpub.WithObserver(func(_ context.Context, a webhookpub.Attempt) {
			if a.Topic == "b" {
				mu.Lock()
				defer mu.Unlock()
				done = append(done, time.Since(began))
			}
		}))
	events := append(withTopic("a", 500), withTopic("b", 50)...)
	errs := p.Publish(t.Context(), events)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the call took %s", took)
	}
	if len(done) != 50 || slices.Max(done) > time.Second {
		t.Errorf("%d events of the healthy endpoint were done, the last after %s", len(done), slices.Max(done))
	}
	verdicts := make(map[outbox.Verdict]int)
	for _, err := range errs[:500] {
		verdicts[outbox.VerdictOf(err)]++
	}
	if verdicts[outbox.Unreached] != 4 || verdicts[outbox.NotSent] != 496 {
		t.Errorf("the hanging endpoint: %v", verdicts)
	}
	if n := len(slow.deliveries()); n != 4 {
		t.Errorf("%d attempts at the hanging endpoint", n)
	}
}

func TestASlowEndpointEndsTheCallInTime(t *testing.T) {
	t.Parallel()
	const timeout = 600 * time.Millisecond
	r := receive(t, func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) }) // The fault.
	p := publisher(t, []*receiver{r}, webhookpub.WithTimeout(timeout), webhookpub.WithConcurrency(10, 1))
	began := time.Now()
	errs := p.Publish(t.Context(), withTopic("a", 100))
	if took := time.Since(began); took > timeout*4/3+300*time.Millisecond {
		t.Errorf("the call took %s", took)
	}
	if outbox.VerdictOf(errs[0]) != outbox.Confirmed || outbox.VerdictOf(errs[99]) != outbox.NotSent {
		t.Errorf("first %v, last %v", errs[0], errs[99])
	}
}

func TestWhenTheContextEndsTheAttemptIsBrokenOffAndNothingElseBegins(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	h := hang(t)
	r := receive(t, func(w http.ResponseWriter, req *http.Request) { arrived <- struct{}{}; h(w, req) })
	p := publisher(t, []*receiver{r}, webhookpub.WithConcurrency(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	errs := p.Publish(ctx, withTopic("a", 3))
	expect(t, errs, outbox.Unreached, outbox.NotSent, outbox.NotSent)
	if !errors.Is(errs[0], context.Canceled) {
		t.Errorf("errors: %v", errs)
	}
	errs = p.Publish(ctx, withTopic("a", 1))
	if outbox.VerdictOf(errs[0]) == outbox.Confirmed || len(r.deliveries()) != 1 {
		t.Errorf("sent after the context had ended: %v", errs)
	}
}
