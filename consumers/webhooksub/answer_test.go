package webhooksub_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func TestTheResultDecidesTheAnswer(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	failed := func(f store.Fault) dedup.Result { return dedup.Result{Outcome: dedup.Failed, Fault: f, Err: broken} }
	for _, c := range []struct {
		name   string
		r      dedup.Result
		status int
		retry  string
		log    string
	}{
		{"applied", dedup.Result{Outcome: dedup.Applied}, 200, "", ""},
		{"duplicate", dedup.Result{Outcome: dedup.Duplicate}, 200, "", ""},
		{"buried", dedup.Result{Outcome: dedup.Buried}, 200, "", "ERROR"},
		{"handler", failed(store.FaultHandler), 500, "", "WARN"},
		{"handler asks for time", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(90*time.Second+1, broken)}, 500, "91", "WARN"},
		{"handler asks for the past", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(-time.Hour, broken)}, 500, "0", "WARN"},
		{"conflict", failed(store.FaultConflict), 503, "5", "WARN"},
		{"busy", failed(store.FaultBusy), 503, "5", "WARN"},
		{"outage", failed(store.FaultOutage), 503, "5", "WARN"},
		{"setup", failed(store.FaultSetup), 503, "5", "WARN"},
		{"canceled", failed(store.FaultCanceled), 503, "5", "WARN"},
		{"unknown", dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: broken}, 503, "5", "WARN"},
		{"unknown, even with an error that is permanent", dedup.Result{Outcome: dedup.Unknown, Fault: store.FaultHandler, Err: dedup.Permanent(broken)}, 503, "5", "WARN"},
		{"permanent, nowhere to bury", dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(broken)}, 422, "", "ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			var seen webhooksub.Delivery
			h := newHandler(t, "payments", &processor{result: c.r}, webhooksub.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				webhooksub.WithObserver(func(_ context.Context, d webhooksub.Delivery) { seen = d }))
			s := serve(t, h)
			got := send(t, s, "msg_1")
			if got.status != c.status || got.header.Get("Retry-After") != c.retry || got.body != "" {
				t.Errorf("answer %+v, want %d, Retry-After %q", got, c.status, c.retry)
			}
			if (got.header.Get(webhooksub.HeaderDuplicate) == "true") != (c.r.Outcome == dedup.Duplicate) {
				t.Errorf("header %v", got.header)
			}
			if seen.Status != c.status || seen.Outcome != c.r.Outcome || seen.ID != "msg_1" || seen.Type != "payment.captured" ||
				seen.Source != "payments" || !errors.Is(seen.Err, c.r.Err) {
				t.Errorf("observed %+v", seen)
			}
			if line := log.String(); c.log == "" && line != "" || !strings.Contains(line, c.log) {
				t.Errorf("logged %q, want %q", line, c.log)
			}
		})
	}
}

// burier is a processor that answers what it is told when it is to bury, too.
type burier struct {
	processor
	buried dedup.Result
}

func (b *burier) Bury(context.Context, dedup.Message, error) dedup.Result { return b.buried }

func TestAMessageThatCouldNotBeBuriedNowComesAgain(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection lost")
	for _, r := range []dedup.Result{
		{Outcome: dedup.Failed, Fault: store.FaultOutage, Err: gone},
		{Outcome: dedup.Unknown, Fault: store.FaultOutage, Err: gone},
	} {
		b := &burier{buried: r}
		b.result = dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("no"))}
		if got := send(t, serve(t, newHandler(t, "payments", b)), "msg_1"); got.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v", r.Outcome, got)
		}
	}
	b := &burier{buried: dedup.Result{Outcome: dedup.Duplicate}}
	b.result = dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.Permanent(errors.New("no"))}
	if got := send(t, serve(t, newHandler(t, "payments", b)), "msg_1"); got.status != http.StatusOK {
		t.Errorf("done by somebody else in the meantime: %+v", got)
	}
}

func TestTheProcessLimitEndsTheContext(t *testing.T) {
	t.Parallel()
	url := serve(t, newHandler(t, "payments", waiting{}, webhooksub.WithProcessLimit(50*time.Millisecond), webhooksub.WithRetryAfter(1500*time.Millisecond)))
	if got := send(t, url, "msg_1"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "2" {
		t.Errorf("%+v", got)
	}
}

// waiting works until its context ends.
type waiting struct{}

func (waiting) Process(ctx context.Context, _ dedup.Message) dedup.Result {
	<-ctx.Done()
	return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: ctx.Err()}
}
