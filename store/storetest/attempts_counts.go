package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

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
			a.begins("p", k, store.Tally{Spent: 7, Starts: 1})
			b.begins("q", k, store.Tally{Spent: 7, Starts: 2})
		},
	}, {
		"a start that is repeated",
		"A start counts once however often its starter repeats it, until somebody else begins the message or it fails.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			k := store.DigestKey([]byte("m"))
			a.begins("p", k, store.Tally{Starts: 1})
			a.begins("p", k, store.Tally{Starts: 1})
			b.begins("p", k, store.Tally{Starts: 1})
			b.begins("q", k, store.Tally{Starts: 2})
			a.begins("p", k, store.Tally{Starts: 3})
			a.begins("p", store.DigestKey([]byte("n")), store.Tally{Starts: 1})
			a.begins("p", k, store.Tally{Starts: 3})
			a.spends(k, 1)
			a.begins("p", k, store.Tally{Spent: 1, Starts: 1})
			a.begins("", k, store.Tally{Spent: 1, Starts: 2})
			a.begins("", k, store.Tally{Spent: 1, Starts: 2})
		},
	}, {
		"a start that is taken back",
		"Survive takes back the start of a starter, once, unless somebody else has begun the message since. It changes nothing else, and is no error where there is nothing.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			timed := store.TimedKey(epoch, []byte("m"))
			plain := timed
			plain.Timed = false
			a.survive("p", timed)
			a.starts(timed, 1)
			a.begins("p", plain, store.Tally{Starts: 1})
			a.begins("p", timed, store.Tally{Starts: 2})
			b.survive("p", timed)
			b.survive("p", timed)
			a.starts(timed, 2)
			a.starts(plain, 2)
			a.begins("p", timed, store.Tally{Starts: 3})
			b.survive("q", timed) // it is not his
			b.starts(timed, 4)
			a.survive("p", timed) // somebody else is at it
			a.starts(timed, 5)
			b.begins("q", timed, store.Tally{Starts: 6})
			b.spends(timed, 1)
			b.survive("q", timed) // it was forgotten
			b.begins("q", timed, store.Tally{Spent: 1, Starts: 1})
			b.survive("q", timed)
			b.begins("p", timed, store.Tally{Spent: 1, Starts: 1})
			b.forget(timed)
			b.survive("p", timed)
			b.begins("q", timed, store.Tally{Starts: 1})
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
