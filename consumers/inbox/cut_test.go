package inbox_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// A store that is away costs one message's time and not that of all.
func TestAnOutageEndsTheCall(t *testing.T) {
	t.Parallel()
	w := &worker{script: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "1" {
			return dedup.Result{Outcome: dedup.Applied}
		}
		return failed(store.FaultOutage, errors.New("away"))
	}}
	got := verdicts(newPublisher(t, w).Publish(t.Context(), kept(t, "a:1", "b:2", "c:3", "d:4")))
	if want := []outbox.Verdict{outbox.Confirmed, outbox.Unreached, outbox.NotSent, outbox.NotSent}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The deadline of a call is for one message: when the first ones have taken their time, the others
// are left for the next call.
func TestACallBeginsNothingAfterItsTurn(t *testing.T) {
	t.Parallel()
	w := &worker{script: func(_ context.Context, m dedup.Message) dedup.Result {
		time.Sleep(1100 * time.Millisecond) // the work
		return dedup.Result{Outcome: dedup.Applied}
	}}
	got := verdicts(newPublisher(t, w).Publish(t.Context(), kept(t, "a:1", "a:2", "b:3")))
	if want := []outbox.Verdict{outbox.Confirmed, outbox.NotSent, outbox.NotSent}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// cancelled waits for the end of its context, as a guard does that rolls back.
func cancelled(ctx context.Context, _ dedup.Message) dedup.Result {
	<-ctx.Done()
	return failed(store.FaultCanceled, ctx.Err())
}

func TestWorkThatIsCutShort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		opts []inbox.PublisherOption
		want outbox.Verdict
	}{
		"by a relay that stops": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		}, nil, outbox.NotSent},
		"by the publish timeout": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		}, nil, outbox.Unreached},
		"by its own limit": {context.WithCancel, []inbox.PublisherOption{inbox.WithLimit(20 * time.Millisecond)}, outbox.RefusedOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := c.ctx(t.Context())
			defer cancel()
			w := &worker{script: cancelled}
			got := verdicts(newPublisher(t, w, c.opts...).Publish(ctx, kept(t, "a:1", "a:2")))
			if want := []outbox.Verdict{c.want, outbox.NotSent}; !slices.Equal(got, want) || len(w.bodies()) != 1 {
				t.Errorf("%v, want %v; worked on %v", got, want, w.bodies())
			}
		})
	}
}

func TestNothingIsBegunWhenTheCallIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &worker{script: cancelled}
	got := verdicts(newPublisher(t, w).Publish(ctx, kept(t, "a:1")))
	if got[0] != outbox.NotSent || len(w.bodies()) != 0 {
		t.Errorf("%v, worked on %v", got, w.bodies())
	}
}

// A call that never returned must not be taken for one that confirmed.
func TestWorkThatEndsItsGoroutineOrPanicsHasFailed(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(context.Context, dedup.Message) dedup.Result{
		"goexit": func(context.Context, dedup.Message) dedup.Result { runtime.Goexit(); return dedup.Result{} },
		"panic":  func(context.Context, dedup.Message) dedup.Result { panic("processor") },
	} {
		errs := newPublisher(t, &worker{script: script}).Publish(t.Context(), kept(t, "a:1"))
		if got := verdicts(errs); !slices.Equal(got, []outbox.Verdict{outbox.RefusedOnce}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestThePlaceOfAPanicIsKept(t *testing.T) {
	t.Parallel()
	w := &worker{script: func(context.Context, dedup.Message) dedup.Result {
		return failed(store.FaultHandler, &dedup.PanicError{Value: "oh", Stack: []byte("handler.go:17")})
	}}
	err := newPublisher(t, w).Publish(t.Context(), kept(t, "a:1"))[0]
	if err == nil || !strings.Contains(err.Error(), "oh") || !strings.Contains(err.Error(), "handler.go:17") {
		t.Errorf("%v", err)
	}
}
