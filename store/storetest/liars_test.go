package storetest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
	"github.com/semel-dev/semel/store/storetest"
)

type tx = *memstore.Tx

// liar is a store with one fault, and the rules that it must be found to break.
type liar struct {
	lie    string
	breaks []string
	sit    func(t *testing.T) // the exam, with the liar as its candidate
}

func liars() []liar {
	return slices.Concat(marksLiars(), printLiars(), unitLiars(), leasesLiars(), lettersLiars(), parkingLiars(), revivalLiars(),
		fencesLiars(), attemptsLiars(), agesLiars())
}

const liarVariable = "STORETEST_LIAR"

// An exam is worth what it finds. Each liar sits it in a process of its own, because a failed case
// fails the process, and must be failed with the sentence of the rule that it breaks.
func TestEveryLiarIsFound(t *testing.T) {
	if lie := os.Getenv(liarVariable); lie != "" {
		for _, l := range liars() {
			if l.lie == lie {
				l.sit(t)
				return
			}
		}
		t.Fatalf("nobody lies like this: %q", lie)
	}
	sentences := storetest.Sentences[tx]()
	for _, l := range liars() {
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
	broken := make(map[string]bool)
	for _, l := range liars() {
		for _, rule := range l.breaks {
			broken[rule] = true
		}
	}
	for rule := range storetest.Sentences[tx]() {
		if !broken[rule] {
			t.Errorf("no liar breaks the rule %q", rule)
		}
	}
}

func sitMarks(bend func(p *marksPlace, b *bentMarks)) func(*testing.T) {
	return func(t *testing.T) {
		storetest.TestMarks(t, storetest.MarksHarness[tx]{
			Around: synctest.Test,
			New: func(t *testing.T, lockWait time.Duration) marksPlace {
				p, b := honestMarks(memstore.New(memstore.WithLockWait(lockWait)))
				bend(&p, b)
				return p
			},
		})
	}
}

func sitLeases(bend func(p *storetest.LeasesPlace, b *bentLeases)) func(*testing.T) {
	return func(t *testing.T) {
		storetest.TestLeases(t, storetest.LeasesHarness{
			Around: synctest.Test,
			New: func(t *testing.T) storetest.LeasesPlace {
				b := honestLeases(memstore.New())
				p := storetest.LeasesPlace{Open: func() store.Leases { return b }}
				bend(&p, b)
				return p
			},
		})
	}
}

func sitLetters(bend func(b *bentLetters)) func(*testing.T) {
	return func(t *testing.T) {
		storetest.TestDeadLetters(t, storetest.DeadLettersHarness[tx]{
			Around: synctest.Test,
			New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[tx] {
				p, marks := honestMarks(memstore.New(memstore.WithLockWait(lockWait)))
				b := honestLetters(marks)
				bend(b)
				return storetest.DeadLettersPlace[tx]{Marks: b.marks, Burier: b, Letters: b, Reviver: b, Effect: p.Effect, Effects: p.Effects}
			},
		})
	}
}

func sitFences(keys bool, bend func(p *marksPlace, b *bentFences)) func(*testing.T) {
	return func(t *testing.T) {
		storetest.TestFences(t, storetest.FencesHarness[tx]{
			Around: synctest.Test,
			Keys:   keys,
			New: func(t *testing.T, lockWait time.Duration) marksPlace {
				p, b := honestFences(memstore.New(memstore.WithLockWait(lockWait)), keys)
				bend(&p, b)
				return p
			},
		})
	}
}

func sitAttempts(bend func(b *bentAttempts)) func(*testing.T) {
	return func(t *testing.T) {
		storetest.TestAttempts(t, storetest.AttemptsHarness{
			Around: synctest.Test,
			New: func(t *testing.T) storetest.AttemptsPlace {
				b := honestAttempts(memstore.New())
				bend(b)
				return storetest.AttemptsPlace{Open: func() storetest.AttemptsStore { return b }}
			},
		})
	}
}

func sitAges(bend func(p *agesPlace, b *bentAges)) func(*testing.T) {
	return func(t *testing.T) {
		storetest.TestRetention(t, storetest.RetentionHarness[tx]{
			Around: synctest.Test,
			New: func(t *testing.T) agesPlace {
				p, b := honestAges(memstore.New())
				bend(&p, b)
				return p
			},
		})
	}
}
