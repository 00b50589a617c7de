package webhookpub_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store"
)

func TestWithinAKeyEventsGoOneAfterAnotherUpToTheFirstFailure(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	var once atomic.Bool
	r := receive(t, nil)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b := make([]byte, 3)
		n, _ := req.Body.Read(b)
		mu.Lock()
		got = append(got, string(b[:n]))
		mu.Unlock()
		if string(b[:n]) == "k05" && once.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	p := publisher(t, []*receiver{r})
	var events []store.Event
	for i := range 10 {
		events = append(events, event("a", "k", fmt.Sprintf("k%02d", i)), event("a", "m", fmt.Sprintf("m%02d", i)))
	}
	errs := p.Publish(t.Context(), events)
	var want []outbox.Verdict
	for i := range 20 {
		switch {
		case i == 10:
			want = append(want, outbox.RefusedOnce)
		case i > 10 && i%2 == 0:
			want = append(want, outbox.NotSent)
		default:
			want = append(want, outbox.Confirmed)
		}
	}
	expect(t, errs, want...)
	expect(t, p.Publish(t.Context(), events[10:]), slices.Repeat([]outbox.Verdict{outbox.Confirmed}, 10)...)
	last := map[byte]string{}
	for _, s := range got {
		if s < last[s[0]] && !(s == "m05") {
			t.Errorf("%s after %s", s, last[s[0]])
		}
		last[s[0]] = s
	}
}

func TestEventsWithOneKeyForTwoEndpointsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	p := publisher(t, []*receiver{receive(t, status(503)), receive(t, nil)})
	expect(t, p.Publish(t.Context(), []store.Event{event("a", "k", "1"), event("b", "k", "1"), event("a", "k", "2"), event("b", "k", "2")}),
		outbox.Unreached, outbox.Confirmed, outbox.NotSent, outbox.Confirmed)
}

func TestA500LeavesTheOtherEventsOfTheEndpointAloneAndA503DoesNot(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]int{500: 20, 503: 1, 429: 1, 408: 1} {
		r := receive(t, status(code))
		p := publisher(t, []*receiver{r}, webhookpub.WithConcurrency(1, 1))
		p.Publish(t.Context(), withTopic("a", 20))
		if got := len(r.deliveries()); got != want {
			t.Errorf("%d: %d attempts, want %d", code, got, want)
		}
	}
}

func TestConcurrencyIsBoundedOverAllCalls(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	r := receive(t, func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(5 * time.Millisecond) // So that attempts meet.
		now.Add(-1)
	})
	p := publisher(t, []*receiver{r}, webhookpub.WithConcurrency(100, 3))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { p.Publish(t.Context(), withTopic("a", 8)) })
	}
	wg.Wait()
	if got := most.Load(); got > 3 || got < 2 {
		t.Errorf("%d attempts at one time, want 3", got)
	}
	if n := len(r.deliveries()); n != 64 {
		t.Errorf("%d deliveries", n)
	}
}
