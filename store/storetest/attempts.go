package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// AttemptsHarness hands over a store that counts attempts.
type AttemptsHarness struct {
	// New makes an empty place that nobody else uses, for the length of one case. One case has 50
	// callers, who may have to wait for a connection.
	New func(t *testing.T) AttemptsPlace

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// AttemptsPlace is where the counts of one case are kept.
type AttemptsPlace struct {
	// Open opens one more store on the place, as another process would. The harness
	// closes it when the case ends.
	Open func() AttemptsStore
}

// AttemptsStore is [store.Attempts] and how a scope is made.
type AttemptsStore interface {
	store.Attempts
	Scope(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error)
}

// TestAttempts holds a store to the contract of [store.Attempts].
func TestAttempts(t *testing.T, h AttemptsHarness) {
	t.Helper()
	examine(t, slices.Concat(countRules(), tenureRules()), h.Around, func(t *testing.T) *attemptsCase {
		return &attemptsCase{AttemptsPlace: h.New(t)}
	})
}

type attemptsCase struct{ AttemptsPlace }

type attemptsRule = rule[*attemptsCase]

// countRules are about failures and starts.
func countRules() []attemptsRule {
	return []attemptsRule{{
		"attempts from one",
		"Spend and Start return 1 the first time and one more each time after that, in every store on the same data. Start does not count as spent, and Spend forgets the starts.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			k := store.DigestKey([]byte("m"))
			for i := range 3 {
				a.spends(k, 2*i+1)
				b.spends(k, 2*i+2)
			}
			b.starts(k, 1)
			a.starts(k, 2)
			a.spends(k, 7)
			a.starts(k, 1)
			b.starts(k, 2)
		},
	}, {
		"attempts of each message",
		"Each scope and each key is counted for itself; a key with a time and one without are different keys, also with the same bytes.",
		func(e *exam, c *attemptsCase) {
			s, other := c.open(e), c.open(e)
			other.scope = other.scopeOf("another consumer")
			timed := store.TimedKey(epoch, []byte("m"))
			plain, near := timed, timed
			plain.Timed = false
			near.ID[15] ^= 1
			for i := range 2 {
				for _, k := range []store.Key{timed, plain, near, {}} {
					s.spends(k, i+1)
					s.starts(k, 1)
					other.starts(k, i+1)
				}
			}
		},
	}, {
		"forgotten attempts",
		"Forget removes both counts of a message and nothing else, and is no error where there is nothing.",
		func(e *exam, c *attemptsCase) {
			s, other := c.open(e), c.open(e)
			other.scope = other.scopeOf("another consumer")
			timed := store.TimedKey(epoch, []byte("m"))
			plain := timed
			plain.Timed = false
			s.forget(timed)
			for _, st := range []*attemptsStore{s, other} {
				for _, k := range []store.Key{timed, plain} {
					st.spends(k, 1)
					st.starts(k, 1)
				}
			}
			s.forget(timed)
			s.spends(timed, 1)
			s.starts(timed, 1)
			s.spends(plain, 2)
			other.starts(timed, 2)
			s.forget(timed)
			s.forget(timed)
		},
	}, {
		"fifty who count",
		"No count is lost among callers at once, and no number is given out twice.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			k := store.DigestKey([]byte("m"))
			var answers []<-chan counted
			for i := range 50 {
				s := []*attemptsStore{a, b}[i%2]
				answers = append(answers, begun(e, func(ctx context.Context) counted {
					n, err := s.Spend(ctx, s.scope, k)
					return counted{n, err}
				}))
			}
			seen := make(map[int]bool)
			for _, ch := range answers {
				r := within(e, "Spend", func(context.Context) counted { return <-ch })
				e.check("Spend", r.err)
				if r.n < 1 || r.n > 50 || seen[r.n] {
					e.failf("%d is given out, twice or beyond the callers", r.n)
				}
				seen[r.n] = true
			}
			a.spends(k, 51)
		},
	}}
}

// tenureRules are about who works on a partition.
func tenureRules() []attemptsRule {
	return []attemptsRule{{
		"the first to enter",
		"The first ever to enter a partition of a log for a scope enters in order.",
		func(e *exam, c *attemptsCase) {
			s, other := c.open(e), c.open(e)
			other.scope = other.scopeOf("another consumer")
			s.enters("log", 0, "a", true)
			s.enters("log", 1, "b", true)
			s.enters("Log", 0, "b", true)
			s.enters("log\x00\xff", 0, "b", true)
			other.enters("log", 0, "b", true)
		},
	}, {
		"after one who has left",
		"Whoever enters after one who has left does so in order, and whoever enters after one who has not does not.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			a.enters("log", 0, "a", true)
			a.leave("log", 0, "a")
			b.enters("log", 0, "b", true)
			a.enters("log", 0, "c", false)
			a.enters("log", 0, "d", false)
			a.leave("log", 0, "d")
			b.enters("log", 0, "e", true)
			b.leave("log", 0, "e")
			b.enters("log", 0, "e", true)
			b.enters("log", 0, "f", false)
		},
	}, {
		"one who is still there",
		"An owner that enters again without having left is in order: it has not died, since it is there.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			a.enters("log", 0, "a", true)
			a.enters("log", 0, "a", true)
			b.enters("log", 0, "b", false)
			b.enters("log", 0, "b", true)
			// It was away, and b may have died of what it does now.
			a.enters("log", 0, "a", false)
		},
	}, {
		"one who is replaced",
		"Leave by one whom somebody else has replaced, or who never entered, changes nothing.",
		func(e *exam, c *attemptsCase) {
			s := c.open(e)
			s.leave("log", 0, "nobody")
			s.enters("log", 0, "a", true)
			s.leave("log", 0, "nobody")
			s.leave("log", 1, "a")
			s.leave("Log", 0, "a")
			s.enters("log", 0, "b", false)
			s.leave("log", 0, "a")
			s.enters("log", 0, "c", false)
		},
	}}
}

// attemptsStore is a store opened by a case, with the acts that cases are made of.
type attemptsStore struct {
	*exam
	AttemptsStore
	scope store.Scope
}

func (c *attemptsCase) open(e *exam) *attemptsStore {
	e.Helper()
	s := &attemptsStore{exam: e, AttemptsStore: c.Open()}
	s.scope = s.scopeOf(examConsumer)
	return s
}

func (s *attemptsStore) scopeOf(name string) store.Scope {
	s.Helper()
	scope, err := s.AttemptsStore.Scope(s.Context(), name, store.Forever)
	s.check("Scope", err)
	return scope
}

type counted struct {
	n   int
	err error
}

func (s *attemptsStore) spends(k store.Key, want int) {
	s.Helper()
	s.counts("Spend", s.Spend, k, want)
}

func (s *attemptsStore) starts(k store.Key, want int) {
	s.Helper()
	s.counts("Start", s.Start, k, want)
}

func (s *attemptsStore) counts(act string, f func(context.Context, store.Scope, store.Key) (int, error), k store.Key, want int) {
	s.Helper()
	r := within(s.exam, act, func(ctx context.Context) counted {
		n, err := f(ctx, s.scope, k)
		return counted{n, err}
	})
	s.check(act, r.err)
	if r.n != want {
		s.failf("%s says %d where %d is right", act, r.n, want)
	}
}

func (s *attemptsStore) forget(k store.Key) {
	s.Helper()
	s.check("Forget", within(s.exam, "Forget", func(ctx context.Context) error { return s.Forget(ctx, s.scope, k) }))
}

func (s *attemptsStore) enters(log string, partition int, owner string, want bool) {
	s.Helper()
	type answer struct {
		orderly bool
		err     error
	}
	a := within(s.exam, "Enter", func(ctx context.Context) answer {
		orderly, err := s.Enter(ctx, s.scope, log, partition, owner)
		return answer{orderly, err}
	})
	s.check("Enter", a.err)
	if a.orderly != want {
		s.failf("Enter of %q: orderly is %v", owner, a.orderly)
	}
}

func (s *attemptsStore) leave(log string, partition int, owner string) {
	s.Helper()
	s.check("Leave", within(s.exam, "Leave", func(ctx context.Context) error { return s.Leave(ctx, s.scope, log, partition, owner) }))
}
