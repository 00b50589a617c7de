package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

var errClosed = errors.New("the account is closed")

func TestWhatIsSaidOfTheNextAttemptLeavesTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("pay: %w", store.RetryAfter(time.Minute, store.Permanent(fmt.Errorf("debit: %w", errClosed))))
	if err.Error() != "pay: debit: the account is closed" || !errors.Is(err, errClosed) {
		t.Errorf("%q, and whether it is its cause: %t", err, errors.Is(err, errClosed))
	}
	if d, ok := store.RetryDelay(err); !ok || d != time.Minute || !store.IsPermanent(err) {
		t.Errorf("it asks for %s (%t), and it is permanent: %t", d, ok, store.IsPermanent(err))
	}
	if d, _ := store.RetryDelay(store.RetryAfter(time.Second, err)); d != time.Second {
		t.Errorf("of two wishes %s counts, want the outermost", d)
	}
	if d, ok := store.RetryDelay(errClosed); ok || d != 0 || store.IsPermanent(errClosed) || store.IsPermanent(nil) {
		t.Error("an error that nobody has marked says something")
	}
	if store.Permanent(nil) != nil || store.RetryAfter(time.Second, nil) != nil {
		t.Error("of no error an error was made")
	}
}

// answering is a publisher with one answer to every event.
type answering struct{ err error }

func (p answering) Publish(_ context.Context, events []store.Event) []error {
	errs := make([]error, len(events))
	for i := range errs {
		errs[i] = p.err
	}
	return errs
}

// handledBy says what becomes of a message whose handler returns an error.
func handledBy(t *testing.T, h func(ctx context.Context) error) dedup.Result {
	t.Helper()
	guard, err := dedup.NewTx(memstore.New(), "payments", dedup.FromHeader("id"), dedup.Forever,
		func(ctx context.Context, _ *memstore.Tx, _ dedup.Message) error { return h(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	return guard.Process(t.Context(), dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte("42")}}})
}

func TestAHandlerThatPublishesForItselfPassesOnWhatThePublisherSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		want   consumers.Action
		after  time.Duration
	}{
		"refused for good":           {outbox.Permanent(errClosed), consumers.Bury, 0},
		"refused for good, and more": {outbox.RetryAfter(time.Hour, outbox.Refused(outbox.Permanent(errClosed))), consumers.Bury, 0},
		"told to come later":         {outbox.RetryAfter(time.Hour, outbox.Refused(errClosed)), consumers.Retry, time.Hour},
		"told to come later at all":  {outbox.RetryAfter(time.Hour, errClosed), consumers.Retry, time.Hour},
	} {
		r := handledBy(t, func(ctx context.Context) error {
			return fmt.Errorf("notify: %w", answering{c.answer}.Publish(ctx, make([]store.Event, 1))[0])
		})
		if d := consumers.DefaultPolicy().Decide(r, 0, 1); d.Action != c.want || d.After != c.after || !d.Spent {
			t.Errorf("%s: the message is %s, and then %+v; want %s after %s", name, r.Outcome, d, c.want, c.after)
		}
	}
}

func TestAPublisherThatCallsAHandlerPassesOnWhatTheHandlerSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said  error
		want  outbox.Verdict
		after time.Duration
	}{
		"permanent":          {dedup.Permanent(errClosed), outbox.RefusedForGood, 0},
		"put off":            {dedup.RetryAfter(time.Hour, errClosed), outbox.RefusedOnce, time.Hour},
		"put off, permanent": {dedup.RetryAfter(time.Hour, dedup.Permanent(errClosed)), outbox.RefusedForGood, time.Hour},
		"neither":            {errClosed, outbox.RefusedOnce, 0},
	} {
		r := handledBy(t, func(context.Context) error { return fmt.Errorf("book: %w", c.said) })
		err := answering{outbox.Refused(r.Err)}.Publish(t.Context(), make([]store.Event, 1))[0]
		if d, _ := outbox.RetryDelay(err); outbox.VerdictOf(err) != c.want || d != c.after {
			t.Errorf("%s: the event is %s, to be tried after %s; want %s after %s", name, outbox.VerdictOf(err), d, c.want, c.after)
		}
	}
}
