package consumertest

import (
	"slices"
	"testing"
	"time"
)

const (
	// patience bounds everything that is waited for. It includes the time after which a broker
	// gives the messages of a dead consumer to another one.
	patience = 60 * time.Second

	// grace is the default of Harness.Grace.
	grace = 250 * time.Millisecond
)

// rule is one sentence of what a consumer promises and the test that holds it to it.
type rule struct {
	name  string
	says  string
	test  func(e *exam)
	needs []Ability
	// only, where it is set, is of whom it is promised.
	only []Order
}

// exam is one case under way.
type exam struct {
	*testing.T
	Harness
	Place
	says string
}

// TestConsumer holds a consumer to what every consumer of a broker promises.
func TestConsumer(t *testing.T, h Harness) {
	t.Helper()
	switch {
	case h.New == nil:
		t.Fatal("the harness has no New")
	case h.Order < Unordered || h.Order > InOrder:
		t.Fatal("the harness does not say which order is promised")
	case h.NotClean == nil:
		t.Fatal("the harness has no NotClean: Run must say when it left something undone")
	case h.Overtime <= 0:
		t.Fatal("the harness has no Overtime: Run must return, whatever handlers and broker do")
	}
	if h.Grace == 0 {
		h.Grace = grace
	}
	if h.Seen == nil {
		h.Seen = func(m Message) Message { return m }
	}
	if h.Around == nil {
		h.Around = func(t *testing.T, test func(t *testing.T)) { test(t) }
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if r.only != nil && !slices.Contains(r.only, h.Order) {
				t.Skip("no promise of this consumer, by its Order")
			}
			for _, a := range r.needs {
				if why, lacks := h.Lacks[a]; lacks {
					t.Skipf("the harness lacks %s: %s", a, why)
				}
			}
			h.Around(t, func(t *testing.T) {
				p := h.New(t)
				h.complete(t, p)
				r.test(&exam{t, h, p, r.says})
			})
		})
	}
}

// rules are all of them.
func rules() []rule {
	return slices.Concat(ackRules(), identityRules(), retryRules(), buryRules(), orderRules(), batchRules(),
		misuseRules(), shutdownRules(), successionRules(), networkRules())
}

// complete demands that what is not there has been declared.
func (h Harness) complete(t *testing.T, p Place) {
	t.Helper()
	for ability, missing := range map[Ability]bool{Remaking: p.Remake == nil, Restarting: p.Restart == nil} {
		h.demand(t, ability, missing)
	}
}

func (h Harness) demand(t *testing.T, a Ability, missing bool) {
	t.Helper()
	if _, lacks := h.Lacks[a]; lacks != missing {
		t.Fatalf("the harness: %s is missing: %t, declared in Lacks: %t", a, missing, lacks)
	}
}

// failf ends the case. It is called by the case's own goroutine only.
func (e *exam) failf(format string, args ...any) {
	e.Helper()
	e.Fatalf("rule: "+e.says+"\n\tgot: "+format, args...)
}
