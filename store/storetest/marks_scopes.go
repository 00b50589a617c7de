package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/semel-dev/semel/store"
)

// scopeRules are about the names of consumers.
func scopeRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"scopes are separate",
		"Two consumers of one message are two scopes, and each of them has its effect.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			m, other := s.mark("m"), s.mark("m")
			other.Scope = s.scopeOf("another consumer")
			s.begin(store.New, m).commit()
			s.begin(store.New, other).commit()
			s.beginAll([]store.Mark{other, m}, []store.Status{store.Seen, store.Seen}).rollback()
		},
	}, {
		"names of scopes",
		"A name has one scope in every store on the same data, and names that differ in any byte have different scopes.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			seen := make(map[store.Scope]string)
			for _, name := range []string{"billing", "Billing", "billing-eu", "billing_eu", "billing eu", "billing  eu", "bílling", "bi\u0301lling"} {
				id := a.scopeOf(name)
				if again, there := a.scopeOf(name), b.scopeOf(name); id != again || id != there {
					e.failf("%q is scope %d, asked again %d, in another store %d", name, id, again, there)
				}
				if former, taken := seen[id]; taken {
					e.failf("%q and %q are both scope %d", former, name, id)
				}
				seen[id] = name
			}
		},
	}, {
		"names that cannot be",
		"Scope refuses the names that store.CheckConsumer refuses and takes all others.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			for _, name := range []string{"", "billing ", "\tbilling", "billing\x00", "\xff", strings.Repeat("b", 201)} {
				err := within(e, "Scope", func(ctx context.Context) error {
					_, err := s.Marks.Scope(ctx, name, store.Forever)
					return err
				})
				if err == nil {
					e.failf("%q is taken", name)
				}
			}
			for _, name := range []string{"b", "'; drop table scopes --", "%s $1 ? \\", strings.Repeat("b", 200), "貨物"} {
				s.scopeOf(name)
			}
		},
	}, {
		"times to keep that cannot be",
		"Scope refuses to keep marks for less than a millisecond, and takes every other time.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			ask := func(keep time.Duration) error {
				return within(e, "Scope", func(ctx context.Context) error {
					_, err := s.Marks.Scope(ctx, "billing", keep)
					return err
				})
			}
			for _, keep := range []time.Duration{0, -1, -store.Forever, time.Millisecond - 1} {
				if ask(keep) == nil {
					e.failf("%s is taken", keep)
				}
			}
			for _, keep := range []time.Duration{time.Millisecond, 30 * 24 * time.Hour, store.Forever - 1, store.Forever} {
				e.check("Scope", ask(keep))
			}
		},
	}, {
		"scope at any moment",
		"Scope stores a name outside of the caller's transaction: a rollback leaves it there.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			id := a.scopeOf("met in the middle of a transaction")
			u.rollback()
			if other := b.scopeOf("met somewhere else"); other == id {
				e.failf("after the rollback another name has the scope %d", id)
			}
			if again := b.scopeOf("met in the middle of a transaction"); again != id {
				e.failf("scope %d before the rollback, %d after it", id, again)
			}
		},
	}}
}
