package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// worker is a processor that follows a script and remembers what it was asked.
type worker struct {
	script func(ctx context.Context, m dedup.Message) dedup.Result

	mu  sync.Mutex
	got []dedup.Message
}

func (w *worker) Process(ctx context.Context, m dedup.Message) dedup.Result {
	w.mu.Lock()
	w.got = append(w.got, m)
	w.mu.Unlock()
	return w.script(ctx, m)
}

func (w *worker) bodies() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.got {
		all = append(all, string(m.Body))
	}
	return all
}

func (w *worker) attempts() (all []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.got {
		all = append(all, m.Attempt)
	}
	return all
}

func newPublisher(t *testing.T, w dedup.Processor, opts ...inbox.PublisherOption) *inbox.Publisher {
	t.Helper()
	p, err := inbox.NewPublisher(w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kept returns events of messages, each written as key:body.
func kept(t *testing.T, all ...string) (events []store.Event) {
	t.Helper()
	for _, s := range all {
		key, body, _ := strings.Cut(s, ":")
		m := dedup.Message{Topic: "orders", Body: []byte(body)}
		if key != "" {
			m.Key = []byte(key)
		}
		e := keep(t, m)
		e.ID = store.DigestKey([]byte(s)).ID
		events = append(events, e)
	}
	return events
}

func failed(fault store.Fault, err error) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: fault, Err: err}
}

func verdicts(errs []error) (all []outbox.Verdict) {
	for _, err := range errs {
		all = append(all, outbox.VerdictOf(err))
	}
	return all
}

func TestWhatAResultMeansToTheRelay(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, c := range map[string]struct {
		result dedup.Result
		want   outbox.Verdict
	}{
		"applied":          {dedup.Result{Outcome: dedup.Applied}, outbox.Confirmed},
		"duplicate":        {dedup.Result{Outcome: dedup.Duplicate}, outbox.Confirmed},
		"buried":           {dedup.Result{Outcome: dedup.Buried}, outbox.Confirmed},
		"parked":           {dedup.Result{Outcome: dedup.Parked}, outbox.Confirmed},
		"handler":          {failed(store.FaultHandler, no), outbox.RefusedOnce},
		"permanent":        {failed(store.FaultHandler, dedup.Permanent(no)), outbox.RefusedForGood},
		"bad key":          {failed(store.FaultHandler, &dedup.KeyError{Err: no}), outbox.RefusedForGood},
		"mismatched":       {dedup.Result{Outcome: dedup.Mismatched, Fault: store.FaultHandler, Err: &dedup.MismatchError{}}, outbox.RefusedForGood},
		"late":             {dedup.Result{Outcome: dedup.Late, Fault: store.FaultHandler, Err: dedup.ErrLate}, outbox.RefusedForGood},
		"unknown":          {dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: no}, outbox.Unreached},
		"unknown, and why": {dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultHandler, Err: no}, outbox.Unreached},
		"conflict":         {failed(store.FaultConflict, no), outbox.Unreached},
		"busy":             {failed(store.FaultBusy, no), outbox.Unreached},
		"outage":           {failed(store.FaultOutage, no), outbox.Unreached},
		"setup":            {failed(store.FaultSetup, no), outbox.Unreached},
		"no outcome":       {dedup.Result{}, outbox.Unreached},
		// Of what a handler that publishes for itself returns, permanent says the same here. The rest
		// is about another event than this one.
		"a publisher's error":    {failed(store.FaultHandler, fmt.Errorf("calling on: %w", outbox.Permanent(no))), outbox.RefusedForGood},
		"not sent":               {failed(store.FaultHandler, fmt.Errorf("calling on: %w", outbox.ErrNotSent)), outbox.RefusedOnce},
		"a refusal in an outage": {failed(store.FaultOutage, outbox.Refused(no)), outbox.Unreached},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublisher(t, &worker{script: func(context.Context, dedup.Message) dedup.Result { return c.result }})
			errs := p.Publish(t.Context(), kept(t, "a:1"))
			if got := outbox.VerdictOf(errs[0]); got != c.want {
				t.Errorf("%v (%v), want %v", got, errs[0], c.want)
			}
			if c.result.Err != nil && !strings.Contains(errs[0].Error(), c.result.Err.Error()) {
				t.Errorf("the reason is lost: %v", errs[0])
			}
		})
	}
}

func TestRetryAfterIsPassedOnWithinBounds(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		time.Hour: time.Hour, -time.Hour: 0, 1000 * time.Hour: 30 * 24 * time.Hour,
	} {
		p := newPublisher(t, &worker{script: func(context.Context, dedup.Message) dedup.Result {
			return failed(store.FaultHandler, dedup.RetryAfter(asked, errors.New("later")))
		}})
		err := p.Publish(t.Context(), kept(t, "a:1"))[0]
		if got, ok := outbox.RetryDelay(err); !ok || got != want || outbox.VerdictOf(err) != outbox.RefusedOnce {
			t.Errorf("asked for %s: %s, %v", asked, got, outbox.VerdictOf(err))
		}
	}
}

func TestBehindARefusedMessageItsKeyWaitsAndOthersGoOn(t *testing.T) {
	t.Parallel()
	w := &worker{script: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "bad" {
			return failed(store.FaultHandler, errors.New("no"))
		}
		return dedup.Result{Outcome: dedup.Applied}
	}}
	got := verdicts(newPublisher(t, w).Publish(t.Context(), kept(t, "a:1", "a:bad", "b:1", "a:2", ":bad", ":2", "b:2", "a:3")))
	const ok, no, not = outbox.Confirmed, outbox.RefusedOnce, outbox.NotSent
	if want := []outbox.Verdict{ok, no, ok, not, no, ok, ok, not}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if want := []string{"1", "bad", "1", "bad", "2", "2"}; !slices.Equal(w.bodies(), want) {
		t.Errorf("worked on %v, want %v", w.bodies(), want)
	}
}

func TestTheHandlerIsToldItsAttempt(t *testing.T) {
	t.Parallel()
	fail := true
	w := &worker{script: func(context.Context, dedup.Message) dedup.Result {
		if fail {
			return failed(store.FaultHandler, errors.New("no"))
		}
		return failed(store.FaultOutage, errors.New("away"))
	}}
	p := newPublisher(t, w)
	events := kept(t, "a:1")
	p.Publish(t.Context(), events)
	p.Publish(t.Context(), events)
	fail = false
	p.Publish(t.Context(), events) // uses up none
	p.Publish(t.Context(), events)
	if want := []int{1, 2, 3, 3}; !slices.Equal(w.attempts(), want) {
		t.Errorf("%v, want %v", w.attempts(), want)
	}
}

func TestAMessageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := &worker{script: cancelled}
	log := &bytes.Buffer{}
	p := newPublisher(t, w, inbox.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	events := kept(t, "a:1", "b:2")
	events[0].Payload = []byte("{}")
	events[1].Payload = []byte{0x8e, 2} // a newer program's, while a deployment is under way
	got := verdicts(p.Publish(t.Context(), events))
	if want := []outbox.Verdict{outbox.RefusedForGood, outbox.Unreached}; !slices.Equal(got, want) || len(w.bodies()) > 0 {
		t.Errorf("%v, want %v", got, want)
	}
	if !strings.Contains(log.String(), "newer") {
		t.Errorf("the log says nothing of it: %s", log)
	}
}

func TestAStoreThatIsNotSetUpIsLogged(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	p := newPublisher(t, &worker{script: func(context.Context, dedup.Message) dedup.Result {
		return failed(store.FaultSetup, errors.New("migrate first"))
	}}, inbox.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	p.Publish(t.Context(), kept(t, "a:1"))
	if !strings.Contains(log.String(), "ERROR") || !strings.Contains(log.String(), "migrate first") {
		t.Errorf("the log says %q", log)
	}
}

// fenced is a processor with a position fence.
type fenced struct {
	dedup.Processor
	dedup.Fencer
}

func (fenced) Fenced() bool { return true }

func TestAPublisherRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	w := &worker{}
	for name, c := range map[string]struct {
		work dedup.Processor
		opt  inbox.PublisherOption
	}{
		"no processor": {nil, nil},
		"a fence":      {fenced{Processor: w}, nil},
		"no limit":     {w, inbox.WithLimit(0)},
		"no logger":    {w, inbox.WithLogger(nil)},
	} {
		opts := []inbox.PublisherOption{}
		if c.opt != nil {
			opts = append(opts, c.opt)
		}
		if _, err := inbox.NewPublisher(c.work, opts...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := inbox.NewPublisher(w, nil); err == nil {
		t.Error("a nil option: no error")
	}
	g, err := dedup.NewTx(memstore.New(), "work", dedup.FromHeader("id"), dedup.Forever, func(context.Context, *memstore.Tx, dedup.Message) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	newPublisher(t, g) // a guard that could keep positions and does not
}
