package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// LeasesHarness hands over a store of leases.
type LeasesHarness struct {
	// New makes an empty place that nobody else uses, for the length of one case.
	New func(t *testing.T) LeasesPlace

	// Lease is the shortest time that the store can measure well and that a case can
	// wait out, 300 ms when zero.
	Lease time.Duration

	// MaxResult is the largest result that the store takes, one megabyte when zero.
	MaxResult int

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// LeasesPlace is where the leases of one case are kept.
type LeasesPlace struct {
	// Open opens one more store on the place, as another process would. The harness
	// closes it when the case ends.
	Open func() store.Leases

	// Pass lets d pass on the store's clock. Nil sleeps, which is right for every store
	// whose clock cannot be moved.
	Pass func(d time.Duration)
}

// TestLeases holds a store to the contract of [store.Leases].
func TestLeases(t *testing.T, h LeasesHarness) {
	t.Helper()
	if h.Lease == 0 {
		h.Lease = 300 * time.Millisecond
	}
	if h.MaxResult == 0 {
		h.MaxResult = 1 << 20
	}
	rules := slices.Concat(claimRules(), resultRules(), expiryRules(), fenceRules())
	examine(t, rules, h.Around, func(t *testing.T) *leasesCase {
		return &leasesCase{h, h.New(t)}
	})
}

type leasesRule = rule[*leasesCase]

// claimRules are about who gets a key.
func claimRules() []leasesRule {
	return []leasesRule{{
		"fresh then busy",
		"The first to claim a key is Fresh and has a token; while its lease holds, everybody else is Busy and learns until when.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			held := a.fresh(key("k"), c.long())
			if held.Takeover {
				e.failf("the first claim of a key is a takeover")
			}
			for _, s := range []*leasesStore{a, b} {
				other := s.claimAs(store.Busy, key("k"), c.long())
				if d := other.Until.Sub(held.Until).Abs(); d > 2*time.Second {
					e.failf("Busy until %s, but the holder has it until %s", other.Until, held.Until)
				}
			}
		},
	}, {
		"keys are separate",
		"Keys that differ in a single bit are different keys.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			base := key("k")
			s.fresh(base, c.long())
			for bit := range 256 {
				k := base
				k[bit/8] ^= 1 << (bit % 8)
				s.fresh(k, c.long())
			}
			s.claimAs(store.Busy, base, c.long())
		},
	}, {
		"fifty claimants",
		"Of fifty who claim one key at once exactly one is Fresh and the others are Busy.",
		func(e *exam, c *leasesCase) {
			c.crowd(e, key("k"), false)
		},
	}, {
		"another fingerprint",
		"A key that is known with another fingerprint is Mismatch, before Busy and before Done, carries the fingerprint of whoever came first, and changes nothing.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			first, second := c.long(), c.long()
			first.Fingerprint, second.Fingerprint = []byte("first \x00\xff"), []byte("second")
			mismatch := func(when string) {
				e.Helper()
				for _, s := range []*leasesStore{a, b} {
					m := s.claimAs(store.Mismatch, key("k"), second)
					if string(m.Fingerprint) != string(first.Fingerprint) {
						e.failf("%s: fingerprint %q where %q came first", when, m.Fingerprint, first.Fingerprint)
					}
				}
			}
			held := a.fresh(key("k"), first)
			mismatch("while held")
			b.claimAs(store.Busy, key("k"), first)
			a.complete(held, []byte("answer"))
			mismatch("when done")
			b.done(key("k"), first, []byte("answer"))
		},
	}, {
		"no fingerprint",
		"A claim without a fingerprint asks for none: it is Busy or Done whatever the first one was.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			with := c.long()
			with.Fingerprint = []byte("first")
			held := s.fresh(key("k"), with)
			s.claimAs(store.Busy, key("k"), c.long())
			s.complete(held, []byte("answer"))
			s.done(key("k"), c.long(), []byte("answer"))
		},
	}, {
		"release",
		"Release gives the key back undone: the next claim is Fresh, with any fingerprint, with a larger token, and takes over from nobody.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			first, second := c.long(), c.long()
			first.Fingerprint, second.Fingerprint = []byte("first"), []byte("second")
			held := a.fresh(key("k"), first)
			a.check("Release", a.release(held))
			next := b.fresh(key("k"), second)
			if next.Token <= held.Token {
				e.failf("token %d after token %d", next.Token, held.Token)
			}
			if next.Takeover {
				e.failf("the claim after a release is a takeover")
			}
			b.complete(next, []byte("answer"))
			a.done(key("k"), second, []byte("answer"))
		},
	}, {
		"released is given up",
		"What was released cannot be completed any more: that is ErrLost, and the key stays free.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			held := s.fresh(key("k"), c.long())
			s.check("Release", s.release(held))
			s.lost("Complete", s.tryComplete(held, []byte("late")))
			s.fresh(key("k"), c.long())
		},
	}}
}
