package consumertest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/semel-dev/semel/consumers/consumertest"
	"github.com/semel-dev/semel/dedup"
)

// sit lets the fake with the lie, or the honest one, sit the exam.
func sit(t *testing.T, lie string, order consumertest.Order) {
	consumertest.TestConsumer(t, consumertest.Harness{
		Order: order, Lanes: lanes(lie), NotClean: errNotClean, Overtime: overtime,
		Around: synctest.Test,
		New: func(*testing.T) consumertest.Place {
			b := newBroker(lie)
			return consumertest.Place{
				Publish: b.publish, Left: b.left, Remake: b.remake, Restart: b.restart,
				Open: func(p dedup.Processor, s consumertest.Settings) (consumertest.Consumer, error) {
					c, err := openConsumer(b, order, p, s)
					if err != nil {
						return consumertest.Consumer{}, err
					}
					return consumertest.Consumer{Run: c.Run, Freeze: c.freeze, Thaw: c.thaw, Kill: c.kill}, nil
				},
			}
		},
	})
}

// lanes: one liar claims that its only lane is one of many.
func lanes(lie string) int {
	if lie == "one lane of many" {
		return 8
	}
	return 0
}

func TestTheHonestPass(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]consumertest.Order{
		"unordered": consumertest.Unordered, "per key": consumertest.PerKey, "in order": consumertest.InOrder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sit(t, "", order)
		})
	}
}

const liarVariable = "CONSUMERTEST_LIAR"

// An exam is worth what it finds. Each liar sits it in a process of its own, because a failed case
// fails the process, and must be failed with the sentence of the rule that it breaks.
func TestEveryLiarIsFound(t *testing.T) {
	if lie := os.Getenv(liarVariable); lie != "" {
		for _, l := range liars {
			if l.lie == lie {
				sit(t, l.lie, l.order)
				return
			}
		}
		t.Fatalf("nobody lies like this: %q", lie)
	}
	sentences := consumertest.Sentences()
	for _, l := range liars {
		for _, rule := range l.breaks {
			t.Run(l.lie+"/"+rule, func(t *testing.T) {
				t.Parallel()
				if sentences[rule] == "" {
					t.Fatalf("there is no rule %q", rule)
				}
				underscored := strings.ReplaceAll(rule, " ", "_")
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=1m",
					"-test.run=^TestEveryLiarIsFound$/^"+underscored+"$")
				cmd.Env = append(os.Environ(), liarVariable+"="+l.lie)
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Fatalf("it passed:\n%s", out)
				}
				if !strings.Contains(string(out), "rule: "+sentences[rule]) {
					t.Errorf("it failed without the sentence %q:\n%s", sentences[rule], out)
				}
				if !strings.Contains(string(out), "--- FAIL: TestEveryLiarIsFound/"+underscored) {
					t.Errorf("the case is not the one that failed:\n%s", out)
				}
			})
		}
	}
}

// A rule that no liar breaks may as well not be there.
func TestEveryRuleHasALiar(t *testing.T) {
	broken := map[string]bool{}
	for _, l := range liars {
		for _, rule := range l.breaks {
			broken[rule] = true
		}
	}
	for rule := range consumertest.Sentences() {
		if !broken[rule] {
			t.Errorf("no liar breaks the rule %q", rule)
		}
	}
}

// liar is a consumer with one fault, and the rules that it must be found to break.
type liar struct {
	lie    string
	order  consumertest.Order
	breaks []string
}

var liars = []liar{
	{"duplicates come again", consumertest.Unordered, []string{"settled is acknowledged"}},
	{"the parked come again", consumertest.Unordered, []string{"settled is acknowledged"}},
	{"hands over twice", consumertest.Unordered, []string{"settled is acknowledged"}},
	{"acknowledges on arrival", consumertest.Unordered, []string{"acknowledged after the result", "acknowledged after the batch"}},
	{"reads the log once", consumertest.Unordered, []string{"messages that come later"}},
	{"acknowledges the unknown", consumertest.Unordered, []string{"unknown is not acknowledged"}},
	{"an outage spends an attempt", consumertest.Unordered, []string{"outage and busy", "unknown is not acknowledged"}},
	{"acknowledges what failed", consumertest.Unordered, []string{"failed is not acknowledged", "outage and busy", "a bad message in a batch", "each"}},
	{"every attempt is the first", consumertest.Unordered, []string{"failed is not acknowledged"}},
	{"every run is an attempt", consumertest.Unordered, []string{"unknown is not acknowledged", "outage and busy"}},
	{"does not hear the handler", consumertest.Unordered, []string{"a handler's own delay"}},
	{"tries at once", consumertest.Unordered, []string{"the policy's delay", "a handler's own delay"}},
	{"waits for its delays", consumertest.Unordered, []string{"delays hold nobody back"}},

	{"acknowledges before it buries", consumertest.Unordered, []string{"buried after the last attempt", "buried at once", "a burial that fails"}},
	{"buries early", consumertest.Unordered, []string{"buried after the last attempt"}},
	{"nothing is hopeless", consumertest.Unordered, []string{"buried at once"}},
	{"a refusal is a failure", consumertest.Unordered, []string{"buried at once"}},
	{"a burial cannot fail", consumertest.Unordered, []string{"a burial that fails"}},
	{"buries without end", consumertest.Unordered, []string{"a burial that needs a person"}},
	{"buries the done again", consumertest.Unordered, []string{"found done while buried"}},
	{"drops what it cannot bury", consumertest.Unordered, []string{"without dead letters"}},
	{"takes any processor", consumertest.Unordered, []string{"a processor that cannot bury"}},

	{"headers in a map", consumertest.Unordered, []string{"every field"}},
	{"empty bodies are none", consumertest.Unordered, []string{"every field"}},
	{"keys are text", consumertest.Unordered, []string{"keys"}},
	{"offsets fall", consumertest.Unordered, []string{"position"}},
	{"the time of delivery", consumertest.Unordered, []string{"redelivery has the same position"}},
	{"one time for all", consumertest.Unordered, []string{"a log made again"}},

	{"several at a time", consumertest.InOrder, []string{"the order of the log"}},
	{"goes on behind a failed one", consumertest.InOrder, []string{"behind a failed message"}},
	{"keys do not matter", consumertest.PerKey, []string{"the order of a key"}},
	{"holds everybody", consumertest.Unordered, []string{"others go on"}},
	{"one lane", consumertest.PerKey, []string{"a slow handler"}},
	{"one lane of many", consumertest.PerKey, []string{"a slow handler"}},

	{"one failed batch is done", consumertest.InOrder, []string{"each", "a bad message in a batch"}},
	{"never lingers", consumertest.InOrder, []string{"a batch that does not fill"}},
	{"lingers for ever", consumertest.InOrder, []string{"a batch that does not fill"}},
	{"small batches", consumertest.InOrder, []string{"a batch is full"}},

	{"setup is an outage", consumertest.Unordered, []string{"a store that is not set up"}},
	{"waits for a person to cancel", consumertest.Unordered, []string{"cancelled by nobody"}},
	{"does not check", consumertest.Unordered, []string{"a store that is not ready"}},
	{"no results are good results", consumertest.Unordered, []string{"no results", "results of a batch"}},
	{"too many results are enough", consumertest.Unordered, []string{"too many results", "results of a batch"}},
	{"reads all results", consumertest.InOrder, []string{"results behind a failed one"}},

	{"an ended context is an error", consumertest.Unordered, []string{"ended before it began"}},
	{"cancels at once", consumertest.Unordered, []string{"running handlers may finish"}},
	{"always clean", consumertest.Unordered, []string{"cancelled at the drain limit", "a handler that hangs"}},
	{"waits for ever", consumertest.Unordered, []string{"a handler that hangs", "cancelled at the drain limit"}},
	{"acknowledges after the end", consumertest.Unordered, []string{"a handler that hangs"}},
	{"finishes everything", consumertest.Unordered, []string{"nothing begins at the end"}},
	{"takes its time", consumertest.Unordered, []string{"an idle consumer"}},
	{"leaves a goroutine", consumertest.Unordered, []string{"no goroutine is left"}},

	{"acknowledges what is fetched", consumertest.InOrder, []string{"the next consumer"}},
	{"begins at the beginning", consumertest.InOrder, []string{"the next consumer", "two consumers"}},
	{"keeps what it holds", consumertest.Unordered, []string{"a consumer that is killed"}},
	{"the dead speak", consumertest.Unordered, []string{"a consumer that is killed"}},

	{"ends with the broker", consumertest.Unordered, []string{"a broker that restarts"}},
	{"ends with the network", consumertest.Unordered, []string{"a network that freezes"}},
	{"ends when it was dead", consumertest.Unordered, []string{"a consumer that was taken for dead"}},
	{"waits for the network", consumertest.Unordered, []string{"the end on a frozen network"}},
}
