package natspub_test

import (
	"strings"
	"testing"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/store"
)

func TestWhatNATSCannotCarryIsRefusedForGoodBeforeItIsSent(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	p := publisher(t, js)
	good := event("orders.paid", "a", "x")
	for name, change := range map[string]func(*store.Event){
		"no id":                    func(e *store.Event) { e.ID = store.ID{} },
		"no subject":               func(e *store.Event) { e.Topic = "" },
		"a space":                  func(e *store.Event) { e.Topic = "orders paid" },
		"a line break":             func(e *store.Event) { e.Topic = "orders.paid\r\nPUB x 0" },
		"NUL":                      func(e *store.Event) { e.Topic = "orders.\x00" },
		"a wildcard":               func(e *store.Event) { e.Topic = "orders.*" },
		"the other wildcard":       func(e *store.Event) { e.Topic = "orders.>" },
		"an empty part":            func(e *store.Event) { e.Topic = "orders..paid" },
		"a full stop at the end":   func(e *store.Event) { e.Topic = "orders." },
		"a command to JetStream":   func(e *store.Event) { e.Topic = "$JS.API.STREAM.DELETE.ORDERS" },
		"a longer line than taken": func(e *store.Event) { e.Topic = "orders." + strings.Repeat("x", 4096) },
		"an instruction":           func(e *store.Event) { e.Headers = []store.Header{{Key: "Nats-Rollup", Value: []byte("all")}} },
		"its own message id":       func(e *store.Event) { e.Headers = []store.Header{{Key: "nats-msg-id", Value: []byte("1")}} },
		"its own id":               func(e *store.Event) { e.Headers = []store.Header{{Key: natspub.HeaderID}} },
		"its own type":             func(e *store.Event) { e.Headers = []store.Header{{Key: natspub.HeaderType}} },
		"a header without a name":  func(e *store.Event) { e.Headers = []store.Header{{}} },
		"a colon in a name":        func(e *store.Event) { e.Headers = []store.Header{{Key: "a:b"}} },
		"a space in a name":        func(e *store.Event) { e.Headers = []store.Header{{Key: "a b"}} },
		"a line break in a value":  func(e *store.Event) { e.Headers = []store.Header{{Key: "a", Value: []byte("b\r\nc: d")}} },
		"a space before a value":   func(e *store.Event) { e.Headers = []store.Header{{Key: "a", Value: []byte(" b")}} },
		"a line break in the type": func(e *store.Event) { e.Type = "a\nb" },
	} {
		bad := good
		change(&bad)
		if got := outbox.VerdictOf(p.Validate(bad)); got != outbox.RefusedForGood {
			t.Errorf("%s: Validate says %s", name, got)
		}
		errs := p.Publish(t.Context(), []store.Event{bad, good})
		if len(errs) != 2 || outbox.VerdictOf(errs[0]) != outbox.RefusedForGood || outbox.VerdictOf(errs[1]) != outbox.NotSent {
			t.Errorf("%s: Publish says %v", name, errs)
		}
	}
	expect(t, p.Publish(t.Context(), []store.Event{good}), outbox.Confirmed)
	if errs := p.Publish(t.Context(), nil); errs != nil {
		t.Errorf("no events: %v", errs)
	}
}

func TestNewRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	_, js := server(t, nil)
	if _, err := natspub.New(nil); err == nil {
		t.Error("nil was taken")
	}
	if _, err := natspub.New(js, natspub.WithWindow(0)); err == nil {
		t.Error("a window of zero was taken")
	}
	if _, err := natspub.New(js, natspub.WithAckWait(0)); err == nil {
		t.Error("no time to wait was taken")
	}
}
