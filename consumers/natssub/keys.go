package natssub

import (
	"fmt"
	"slices"
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

// ready returns what may be handled now, and how long until that may change by itself.
func (h *hand) ready() (list []*held, wait time.Duration) {
	if h.busy == nil {
		return h.line, 0
	}
	wait = time.Hour
	blocked := map[string]bool{}
	for _, m := range h.line {
		switch rest := time.Until(m.due); {
		case m.key != "" && (h.busy[m.key] || blocked[m.key]):
			continue
		case rest > 0:
			wait = min(wait, rest)
		case m.suspect && h.trying:
		default:
			list = append(list, m)
			continue
		}
		blocked[m.key] = true
	}
	return list, wait
}

// takeKeys takes the batch out of the line, and its keys with it.
func (h *hand) takeKeys(batch []*held) {
	taken := make(map[*held]bool, len(batch))
	for _, m := range batch {
		taken[m] = true
		if m.key != "" {
			h.busy[m.key] = true
		}
		h.trying = h.trying || m.suspect
	}
	h.line = slices.DeleteFunc(h.line, func(m *held) bool { return taken[m] })
}

// back puts messages of a lane in their places in the line again; the first is due after the delay.
// It reports false when the hand is closed or paused.
func (h *hand) back(ms []*held, after time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.paused {
		return false
	}
	ms[0].due = time.Now().Add(after)
	for _, m := range ms {
		at, _ := slices.BinarySearchFunc(h.line, m.turn, func(other *held, turn uint64) int {
			if other.turn < turn {
				return -1
			}
			return 1
		})
		h.line = slices.Insert(h.line, at, m)
	}
	h.work.Broadcast()
	return true
}

// leave frees the keys of a batch that a lane took.
func (h *hand) leave(keys []string) {
	if len(keys) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		delete(h.busy, key)
	}
	h.work.Broadcast()
}

// keysOf lists the keys of a batch of a hand with an order of keys.
func (h *hand) keysOf(batch []*held) (keys []string) {
	if h.busy == nil {
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
