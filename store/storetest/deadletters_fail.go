package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/semel-dev/semel/store"
)

// failRules are about what is chosen from the letters, and about letters that were run again and
// failed.
func failRules[TTx any]() []lettersRule[TTx] {
	topics := func(all []store.DeadLetter) string {
		var names []string
		for _, d := range all {
			names = append(names, d.Topic)
		}
		return strings.Join(names, "")
	}
	return []lettersRule[TTx]{{
		"filters",
		"A filter takes the letters that fit all of its fields, and its zero value takes every one.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			states := []store.LetterState{store.Dead, store.Waiting, store.Quarantined, store.Conflicting}
			var all []store.DeadLetter
			for i, name := range strings.Split("abcdefgh", "") {
				d := c.letter(name)
				d.Consumer = []string{consumer, otherConsumer}[i/4]
				d.State = states[i%4]
				d.Order = [][]byte{nil, []byte("x"), []byte("X")}[i%3]
				all = append(all, c.buried(d))
				// The times by which it chooses have to differ.
				time.Sleep(2 * time.Millisecond)
			}
			for _, f := range []struct {
				store.LetterFilter
				want string
			}{
				{store.LetterFilter{}, "abcdefgh"},
				{store.LetterFilter{Consumer: otherConsumer}, "efgh"},
				{store.LetterFilter{Order: []byte("x")}, "beh"},
				{store.LetterFilter{Order: []byte("X")}, "cf"},
				{store.LetterFilter{Order: []byte("nobody's")}, ""},
				{store.LetterFilter{States: []store.LetterState{store.Dead}}, "ae"},
				{store.LetterFilter{States: []store.LetterState{store.Conflicting, store.Waiting}}, "bdfh"},
				{store.LetterFilter{First: all[5].ID}, "fgh"},
				{store.LetterFilter{Last: all[1].ID}, "ab"},
				{store.LetterFilter{First: all[2].ID, Last: all[2].ID}, "c"},
				{store.LetterFilter{Since: all[5].BuriedAt}, "fgh"},
				{store.LetterFilter{Until: all[5].BuriedAt}, "abcde"},
				{store.LetterFilter{Since: all[1].BuriedAt, Until: all[3].BuriedAt}, "bc"},
				{store.LetterFilter{Consumer: consumer, Order: []byte("x"), States: []store.LetterState{store.Waiting}, First: all[0].ID, Last: all[7].ID, Since: all[0].BuriedAt, Until: all[7].BuriedAt}, "b"},
			} {
				if got := topics(c.find(f.LetterFilter, 0, 100)); got != f.want {
					e.failf("%+v takes %q where %q is right", f.LetterFilter, got, f.want)
				}
			}
			f := store.LetterFilter{Consumer: consumer, First: all[1].ID}
			if got := topics(c.find(f, all[1].ID, 1)); got != "c" {
				e.failf("a page of one after the second letter is %q", got)
			}
		},
	}, {
		"a failed revival is noted",
		"FailDead adds one attempt to a letter and replaces its reason, and changes nothing else.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			first, second := c.letter("first"), c.letter("second")
			first.Order = []byte("customer")
			want, other := c.buried(first), c.buried(second)
			for i, reason := range []string{"gone", "\x00still\xff gone"} {
				c.check("FailDead", c.fail(want.ID, reason))
				got := c.get(want.ID).DeadLetter
				if got.Attempts != first.Attempts+i+1 || !strings.Contains(got.Reason, "gone") {
					e.failf("%d attempts, reason %q", got.Attempts, got.Reason)
				}
				want.Attempts, want.Reason = got.Attempts, got.Reason
				c.same("the letter that failed", got, want)
			}
			c.same("the other letter", c.get(other.ID).DeadLetter, other)
			c.listed("", 0, 10, "first", "second")
		},
	}, {
		"no letter to fail",
		"FailDead of a letter that is gone is ErrNotFound.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			d := c.buried(c.letter("m"))
			c.discard(1, d.ID)
			for _, id := range []int64{0, -1, d.ID, math.MaxInt64} {
				if err := c.fail(id, "gone"); !errors.Is(err, store.ErrNotFound) {
					e.failf("FailDead(%d): %v", id, err)
				}
			}
		},
	}}
}

func (c *lettersCase[TTx]) fail(id int64, reason string) error {
	c.Helper()
	return within(c.exam, fmt.Sprintf("FailDead(%d)", id), func(ctx context.Context) error { return c.Letters.FailDead(ctx, id, reason) })
}
