package storetest

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// expiryRules are about the store's clock.
func expiryRules() []leasesRule {
	return []leasesRule{{
		"takeover",
		"A lease that has run out on the store's clock is taken over: the claim is Fresh, says Takeover and has a larger token.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			held := a.fresh(key("k"), c.short())
			for range 3 {
				c.runOut()
				next := b.fresh(key("k"), c.short())
				if !next.Takeover {
					e.failf("the claim does not say that it takes over")
				}
				if next.Token <= held.Token {
					e.failf("token %d after token %d", next.Token, held.Token)
				}
				held = next
			}
			b.complete(held, []byte("answer"))
			a.done(key("k"), c.short(), []byte("answer"))
		},
	}, {
		"fifty take over",
		"Of fifty who claim a key whose lease has run out exactly one takes over and the others are Busy.",
		func(e *exam, c *leasesCase) {
			c.open(e).fresh(key("k"), c.short())
			c.runOut()
			c.crowd(e, key("k"), true)
		},
	}, {
		"completed though run out",
		"A lease that has merely run out and that nobody has taken is completed.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			held := a.fresh(key("k"), c.short())
			c.runOut()
			a.complete(held, []byte("answer"))
			b.done(key("k"), c.short(), []byte("answer"))
		},
	}, {
		"extend",
		"Extend moves the end of the lease to now + by, in either direction, and keeps its token.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			held := a.fresh(key("k"), c.short())
			longer := a.extend(held, time.Hour)
			a.check("Extend", longer.err)
			if longer.Token != held.Token || longer.Key != held.Key || longer.Keep != held.Keep {
				e.failf("Extend of %+v gave %+v", held, longer.Claim)
			}
			if !longer.Until.After(held.Until) {
				e.failf("the lease ended at %s and ends at %s after Extend", held.Until, longer.Until)
			}
			c.runOut()
			b.claimAs(store.Busy, key("k"), c.short())
			shorter := a.extend(longer.Claim, c.Lease)
			a.check("Extend", shorter.err)
			c.runOut()
			next := b.fresh(key("k"), c.short())
			if !next.Takeover || next.Token <= held.Token {
				e.failf("after the extended lease: takeover %t, token %d after token %d", next.Takeover, next.Token, held.Token)
			}
		},
	}, {
		"keep",
		"A result is kept for the keep time, counted from Complete; after that the key is Fresh, with any fingerprint, with a larger token, and takes over from nobody.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			first, second := c.long(), c.long()
			first.Fingerprint, second.Fingerprint = []byte("first"), []byte("second")
			first.Keep = 4 * c.Lease
			held := a.fresh(key("k"), first)
			c.pass(first.Keep + c.Lease)
			a.complete(held, []byte("answer"))
			b.done(key("k"), first, []byte("answer"))
			c.pass(first.Keep + c.Lease)
			next := b.fresh(key("k"), second)
			if next.Takeover {
				e.failf("the claim after the keep time is a takeover")
			}
			if next.Token <= held.Token {
				e.failf("token %d after token %d", next.Token, held.Token)
			}
			a.lost("Complete of the former holder", a.tryComplete(held, []byte("late")))
		},
	}}
}
