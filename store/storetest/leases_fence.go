package storetest

import "github.com/semel-dev/semel/store"

// fenceRules are about holders that were overtaken.
func fenceRules() []leasesRule {
	return []leasesRule{{
		"overtaken while the next one works",
		"An overtaken holder gets ErrLost from Complete, Extend and Release, and changes nothing for the one who holds the key now.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			former := a.fresh(key("k"), c.short())
			c.runOut()
			holder := b.fresh(key("k"), c.long())
			c.overtaken(a, former)
			a.claimAs(store.Busy, key("k"), c.long())
			b.complete(holder, []byte("the holder's"))
			a.done(key("k"), c.long(), []byte("the holder's"))
		},
	}, {
		"overtaken after the next one's end",
		"An overtaken holder gets ErrLost from Complete, Extend and Release, and does not touch what the next one has completed or given back.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			former := a.fresh(key("done"), c.short())
			alsoFormer := a.fresh(key("released"), c.short())
			c.runOut()
			b.complete(b.fresh(key("done"), c.long()), []byte("the holder's"))
			c.overtaken(a, former)
			b.done(key("done"), c.long(), []byte("the holder's"))

			b.check("Release", b.release(b.fresh(key("released"), c.long())))
			c.overtaken(a, alsoFormer)
			b.fresh(key("released"), c.long())
		},
	}, {
		"overtaken more than once",
		"Every holder but the last is refused, however many there were.",
		func(e *exam, c *leasesCase) {
			s := c.open(e)
			var formers []store.Claim
			for range 3 {
				formers = append(formers, s.fresh(key("k"), c.short()))
				c.runOut()
			}
			last := s.fresh(key("k"), c.long())
			for _, former := range formers {
				c.overtaken(s, former)
			}
			s.complete(last, []byte("the last one's"))
			s.done(key("k"), c.long(), []byte("the last one's"))
		},
	}, {
		"a claim travels",
		"A claim is a value: another store on the same data extends, completes and releases with it.",
		func(e *exam, c *leasesCase) {
			a, b := c.open(e), c.open(e)
			held := a.fresh(key("completed"), c.long())
			longer := b.extend(held, c.long().Lease)
			b.check("Extend", longer.err)
			b.complete(longer.Claim, []byte("answer"))
			a.done(key("completed"), c.long(), []byte("answer"))
			b.check("Release", b.release(a.fresh(key("released"), c.long())))
			a.fresh(key("released"), c.long())
		},
	}}
}

// overtaken checks that a former holder is refused everything.
func (c *leasesCase) overtaken(s *leasesStore, former store.Claim) {
	s.Helper()
	s.lost("Complete", s.tryComplete(former, []byte("the former holder's")))
	s.lost("Extend", s.extend(former, c.long().Lease).err)
	s.lost("Release", s.release(former))
}
