package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// discardRules are about keys whose letters are discarded.
func discardRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"discarding the last letter",
		"What waits behind a discarded letter goes on waiting; with the last letter of an ordering key the key is no longer parked.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			head := c.buried(c.queued("head", "x", store.Dead))
			next := c.buried(c.queued("next", "x", store.Waiting))
			late := c.buried(c.queued("late", "x", store.Quarantined))
			c.discard(1, head.ID)
			c.begun(store.Blocked, c.ordered("n", "x")).rollback()
			c.parked("", 10, parkedKey{consumer, "x", next.ID, 0})
			c.discard(1, late.ID)
			c.begun(store.Blocked, c.ordered("n", "x")).rollback()
			c.discard(1, next.ID)
			c.begun(store.New, c.ordered("n", "x")).rollback()
			c.parked("", 10)

			head = c.buried(c.queued("head", "x", store.Dead))
			next = c.buried(c.queued("next", "x", store.Waiting))
			other := c.buried(c.queued("other", "y", store.Dead))
			c.discard(2, next.ID, head.ID)
			c.begun(store.New, c.ordered("n", "x")).rollback()
			c.begun(store.Blocked, c.ordered("n", "y")).rollback()
			c.parked("", 10, parkedKey{consumer, "y", other.ID, 0})
		},
	}, {
		"a message behind a letter that is discarded",
		"No letter ever waits behind a key that is not parked: a message that goes behind the last letter while that one is discarded keeps the key parked.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			head := c.buried(c.queued("head", "x", store.Dead))
			u := c.begun(store.Blocked, c.ordered("n", "x"))
			done := begun(e, func(ctx context.Context) error {
				_, err := c.Letters.DiscardDead(ctx, head.ID)
				return err
			})
			c.pause(func() bool { return len(done) > 0 })
			c.bury(u, c.queued("n", "x", store.Waiting))
			u.commit()
			c.check("DiscardDead", within(e, "DiscardDead", func(context.Context) error { return <-done }))
			c.listed("", 0, 10, "n")
			c.begun(store.Blocked, c.ordered("o", "x")).rollback()
		},
	}}
}
