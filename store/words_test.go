package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/semel-dev/semel/store"
)

// A state that was forgotten is zero, and must not look like any other.
func TestStatesAreWords(t *testing.T) {
	for _, c := range []struct {
		states []fmt.Stringer
		want   string
	}{
		{[]fmt.Stringer{store.Status(0), store.New, store.Seen, store.Status(99)}, "no status,new,seen,no status"},
		{[]fmt.Stringer{store.End(0), store.Committed, store.RolledBack, store.Unknown, store.End(99)},
			"not ended,committed,rolled back,unknown,not ended"},
		{[]fmt.Stringer{store.ClaimState(0), store.Fresh, store.Done, store.Busy, store.Mismatch, store.ClaimState(99)},
			"no state,fresh,done,busy,mismatch,no state"},
		{[]fmt.Stringer{store.Fault(0), store.FaultHandler, store.FaultConflict, store.FaultBusy, store.FaultOutage,
			store.FaultSetup, store.FaultCanceled, store.Fault(99)},
			"no fault,handler,conflict,busy,outage,setup,canceled,no fault"},
	} {
		var got []string
		for _, s := range c.states {
			got = append(got, s.String())
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%T: %q, want %q", c.states[0], strings.Join(got, ","), c.want)
		}
	}
}

func TestCheckConsumer(t *testing.T) {
	for _, name := range []string{"b", "billing", "billing eu-1", "貨物", strings.Repeat("b", 200)} {
		if err := store.CheckConsumer(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, says := range map[string]string{
		"":                       "empty",
		strings.Repeat("b", 201): "200",
		strings.Repeat("é", 101): "200",
		"billing\x00":            "control",
		"bil\nling":              "control",
		"billing\x7f":            "control",
		"\xff":                   "plain text",
		" billing":               "white space",
		"billing\u00a0":          "white space",
	} {
		if err := store.CheckConsumer(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the error is %v, want one about %s", name, err, says)
		}
	}
}
