package storetest

import (
	"bytes"
	"context"
	"math/rand/v2"

	"github.com/semel-dev/semel/store"
)

// resultRules are about what Complete stores.
func resultRules() []leasesRule {
	return []leasesRule{{
		"done with the result",
		"What was completed is Done for everybody and replays the result, byte for byte; nil stays nil and empty stays empty.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			every := make([]byte, 256)
			for i := range every {
				every[i] = byte(i)
			}
			for i, result := range [][]byte{nil, {}, {0}, []byte("answer"), []byte("\xff\xfe broken \xed\xa0\x80"), every} {
				k := key(string(rune('a' + i)))
				held := a.fresh(k, c.long())
				a.complete(held, result)
				for range 2 {
					a.done(k, c.long(), result)
					b.done(k, c.long(), result)
				}
			}
		},
	}, {
		"a large result",
		"A result of a megabyte, or of what the harness declares as the most, is replayed byte for byte.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			large := make([]byte, c.MaxResult)
			// Random bytes, so that nothing on the way can make them small.
			_, _ = rand.NewChaCha8([32]byte{1}).Read(large)
			held := s.fresh(key("k"), c.long())
			s.complete(held, large)
			s.done(key("k"), c.long(), large)
		},
	}, {
		"complete twice",
		"Complete may be called again with the same claim: it answers nil and the result stays.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			held := a.fresh(key("k"), c.long())
			a.complete(held, []byte("answer"))
			a.complete(held, []byte("answer"))
			b.complete(held, []byte("answer"))
			a.done(key("k"), c.long(), []byte("answer"))
		},
	}, {
		"completed is final",
		"What was completed can neither be extended nor released by its holder: it stays Done.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			held := s.fresh(key("k"), c.long())
			s.complete(held, []byte("answer"))
			s.lost("Extend", s.extend(held, c.Lease).err)
			if err := s.release(held); err == nil {
				e.failf("Release: no error")
			}
			c.runOut()
			s.done(key("k"), c.long(), []byte("answer"))
		},
	}, {
		"buffers",
		"A store keeps no slice of its caller's and hands out none of its own.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			p := c.long()
			p.Fingerprint = []byte("fingerprint")
			given := bytes.Clone(p.Fingerprint)
			held := within(e, "Claim", func(ctx context.Context) claimed {
				q := p
				q.Fingerprint = given
				c, err := s.Leases.Claim(ctx, key("k"), q)
				return claimed{c, err}
			})
			e.check("Claim", held.err)
			clear(given)
			other := p
			other.Fingerprint = []byte("another")
			m := s.claimAs(store.Mismatch, key("k"), other)
			clear(m.Fingerprint)
			result := []byte("answer")
			s.complete(held.Claim, result)
			clear(result)
			d := s.claimAs(store.Done, key("k"), p)
			clear(d.Result)
			s.done(key("k"), p, []byte("answer"))
		},
	}}
}
