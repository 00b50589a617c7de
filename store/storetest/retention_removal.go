package storetest

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// removalRules are about which marks are removed.
func removalRules[TTx any]() []agesRule[TTx] {
	return []agesRule[TTx]{{
		"old marks are removed",
		"A purge removes the marks that are older than the newest settled message less the time to keep: they are Late from then on. Younger ones stay Seen.",
		func(e *exam, c *agesCase[TTx]) {
			a, b := c.openAges(e, kept), c.openAges(e, kept)
			old, young := a.pair(200*day, "m"), a.pair(20*day, "m")
			a.are(store.New, append(old, young...)...)
			a.reached(0, day)
			a.purge()
			for _, s := range []*agesStore[TTx]{a, b} {
				s.are(store.Late, old...)
				s.are(store.Seen, young...)
			}
		},
	}, {
		"nothing before it is time",
		"Nothing is removed of a consumer of which nobody has said how far it has come, nor before a purge.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			old := s.pair(500*day, "m")
			s.are(store.New, old...)
			s.purge()
			s.are(store.Seen, old...)
			s.are(store.New, s.pair(500*day, "n")...)
			s.reachedAll(s.scope)
			s.purge()
			s.are(store.Seen, old...)
			s.reached(0, day)
			s.are(store.Seen, old...)
			s.are(store.New, s.pair(500*day, "o")...)
		},
	}, {
		"kept for ever",
		"Of a consumer that wants its marks kept for ever nothing is removed.",
		func(e *exam, c *agesCase[TTx]) {
			s, other := c.openAges(e, store.Forever), c.openAges(e, kept)
			s.scope = s.keeps("the consumer that keeps", store.Forever)
			old, gone := s.pair(2000*day, "m"), other.pair(2000*day, "m")
			s.are(store.New, old...)
			other.are(store.New, gone...)
			s.reached(0, day)
			other.reached(0, day)
			s.purge()
			s.are(store.Seen, old...)
			s.are(store.New, s.pair(2000*day, "n")...)
			other.are(store.Late, gone...)
		},
	}, {
		"kept for each consumer's time",
		"Each consumer's marks are kept for the time that it wants, and the last one to ask for a consumer has it.",
		func(e *exam, c *agesCase[TTx]) {
			s, longer := c.openAges(e, kept), c.openAges(e, kept)
			longer.scope = longer.keeps("another consumer", 10*kept)
			mine, theirs := s.pair(200*day, "m"), longer.pair(200*day, "m")
			s.are(store.New, mine...)
			longer.are(store.New, theirs...)
			longer.keeps(examConsumer, 20*kept)
			s.reached(0, day)
			longer.reached(0, day)
			s.purge()
			s.are(store.Seen, mine...)
			longer.are(store.Seen, theirs...)
			longer.keeps(examConsumer, kept+time.Hour)
			s.purge()
			s.are(store.Late, mine...)
			longer.are(store.Seen, theirs...)
		},
	}, {
		"the partition that is furthest behind",
		"Removal follows the partition that is furthest behind: one that was down or idle finds the marks of what it has not read.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			old, older := s.pair(200*day, "m"), s.pair(600*day, "m")
			s.are(store.New, append(old, older...)...)
			s.reached(0, day)
			s.reachedAll(s.scope, store.Reach{Log: "log", Partition: 2, Newest: s.now}, store.Reach{Log: "another log", Newest: s.now.Add(-300 * day)})
			s.purge()
			s.are(store.Seen, old...)
			s.are(store.Late, older...)
			s.are(store.New, s.pair(300*day, "not read yet")...)
			s.reachedAll(s.scope, store.Reach{Log: "another log", Newest: s.now.Add(-day)})
			s.purge()
			s.are(store.Late, old...)
		},
	}, {
		"never back",
		"A time before what was said earlier changes nothing, whether it is said before a purge or after it.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			old := s.pair(200*day, "m")
			s.are(store.New, old...)
			s.reached(0, day)
			s.reached(0, 300*day)
			s.purge()
			s.are(store.Late, old...)
			s.reached(0, 300*day)
			s.reached(1, 300*day)
			s.purge()
			s.are(store.Late, append(old, s.pair(200*day, "n")...)...)
		},
	}, {
		"not past the clock",
		"A time later than the store's clock changes nothing: one message that is dated to the next century does not carry off the marks of the others.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			old, recent := s.pair(200*day, "m"), s.pair(20*day, "m")
			s.are(store.New, append(old, recent...)...)
			ahead := store.Reach{Log: "log", Newest: s.now.Add(40000 * day)}
			s.reachedAll(s.scope, ahead)
			s.purge()
			s.are(store.Seen, append(old, recent...)...)
			s.reachedAll(s.scope, store.Reach{Log: "log", Newest: s.now.Add(-300 * day)})
			s.reachedAll(s.scope, ahead)
			s.purge()
			s.are(store.Seen, append(old, recent...)...)
		},
	}, {
		"reached without a time",
		"A partition whose messages have no time has come as far as the store's clock, and the others are where they were.",
		func(e *exam, c *agesCase[TTx]) {
			s := c.openAges(e, kept)
			old, older := s.pair(200*day, "m"), s.pair(600*day, "m")
			s.are(store.New, append(old, older...)...)
			s.reached(0, 300*day)
			s.reachedAll(s.scope, store.Reach{Log: "timeless"})
			s.purge()
			s.are(store.Seen, old...)
			s.are(store.Late, older...)
			s.reached(0, 0)
			s.purge()
			s.are(store.Late, old...)

			s.scope = s.keeps("a consumer of messages without a time", kept)
			old = s.pair(200*day, "m")
			s.are(store.New, old...)
			s.reachedAll(s.scope, store.Reach{Log: "timeless"})
			s.purge()
			s.are(store.Late, old...)
			s.are(store.New, s.pair(20*day, "n")...)
		},
	}}
}
