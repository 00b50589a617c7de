package natssub

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// WithOrderBy keeps the order of messages that have one key: they are handled one after another, and
// one that failed waits in this process, with those of its key behind it, until it is settled or
// buried, while those of other keys go on. A message with an empty key has no order. Like
// [WithOrder] it keeps the order in this process, in which messages arrive; what is delivered again
// after a crash, or goes to another process, comes when it comes.
//
// Messages that wait take part of the hand (see [WithPrefetch]), so many of them behind one that
// keeps failing hold up everything in the end.
//
// The function must give the same key for the same message always. It is called from one
// goroutine; a panic in it ends Run, because the order of that message is then unknown.
func WithOrderBy(key func(dedup.Message) []byte) Option {
	return option(func(c *config) { c.orderBy, c.orderBySet = key, true })
}

// keyOf asks the user's function.
func (c *config) keyOf(m dedup.Message) (key string, err error) {
	if c.orderBy == nil {
		return "", nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the function of WithOrderBy panicked over message %d: %v", m.Position.Offset, v)
		}
	}()
	return string(c.orderBy(m)), nil
}

// keysOf lists the keys of a batch of a hand with an order of keys.
func (h *hand) keysOf(batch []*held) (keys []string) {
	if h.strands == nil {
		return nil
	}
	for _, m := range batch {
		if m.key != "" {
			keys = append(keys, m.key)
		}
	}
	return keys
}

// holdBack leaves the batch's first message in hand until its delay is over, and those of its key
// behind it, and returns the others.
func (r *run) holdBack(batch []*held, after time.Duration) []*held {
	var of, others []*held
	for _, m := range batch {
		if m.key == batch[0].key {
			of = append(of, m)
		} else {
			others = append(others, m)
		}
	}
	if !r.hand.back(of, after) {
		return batch // which the end or the pause gives back
	}
	return others
}
