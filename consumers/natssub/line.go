package natssub

import (
	"math/rand/v2"
	"time"
)

// enqueue lets lanes take the message, and those behind it in its strand.
func (h *hand) enqueue(m *held) {
	if m.suspect && !h.ordered {
		h.suspects = append(h.suspects, m)
	} else {
		h.line = append(h.line, m)
		h.ready += h.loosen(m)
	}
	h.work.Broadcast()
}

// rest keeps a message in hand until its delay is over. It reports false when the hand is closed
// or paused.
func (h *hand) rest(m *held, after time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.paused {
		return false
	}
	h.sleep(m, after)
	return true
}

func (h *hand) sleep(m *held, after time.Duration) {
	h.resting[m] = time.AfterFunc(after, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.resting[m] != nil { // or it has just been given back
			delete(h.resting, m)
			h.enqueue(m)
		}
	})
	h.work.Broadcast() // what rests makes lanes hungry
}

// take waits for messages and returns at least one, or nil when the hand is closed. It waits
// until fill of them are ready or the first has waited for linger, and then returns as
// many as share says of those that are ready.
func (h *hand) take(fill int, linger time.Duration, share func(waiting int) int) []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed {
		// Nothing is in line while the hand is paused.
		if s := h.takeSuspect(); s != nil {
			return []*held{s}
		}
		if len(h.line) == 0 {
			h.idle()
			continue
		}
		left := linger - time.Since(h.line[0].arrived)
		if h.ready >= fill || left <= 0 {
			return h.takeLine(share(h.ready))
		}
		h.await(left)
	}
	return nil
}

// idle waits until something changes. What is in hand and waits for something else does not keep the
// lane from more.
func (h *hand) idle() {
	if len(h.resting)+len(h.suspects)+h.stranded > 0 {
		h.hungry++
		defer func() { h.hungry-- }()
		h.room.Signal()
	}
	h.work.Wait()
}

// await waits until something changes, no longer than limit.
func (h *hand) await(limit time.Duration) {
	h.hungry++
	h.room.Signal()
	alarm := time.AfterFunc(limit, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.work.Broadcast()
	})
	h.work.Wait()
	alarm.Stop()
	h.hungry--
}

// takeSuspect returns one suspect at a time, and any of them: if one of them ends the
// process, the others are tried before it in half of the rounds, and are gone from here
// long before they are given up with it.
func (h *hand) takeSuspect() *held {
	if h.trying || len(h.suspects) == 0 {
		return nil
	}
	i := rand.IntN(len(h.suspects))
	s, last := h.suspects[i], len(h.suspects)-1
	h.suspects[i], h.suspects[last] = h.suspects[last], nil
	h.suspects = h.suspects[:last]
	h.trying = true
	h.pull(nil, s, 1)
	return s
}

// takeLine takes the first n that are ready, a suspect alone.
func (h *hand) takeLine(n int) (batch []*held) {
	n = min(max(n, 1), h.ready)
	batch = make([]*held, 0, n)
	for len(h.line) > 0 && len(batch) < n {
		m := h.line[0]
		if m.suspect && len(batch) > 0 {
			break
		}
		h.line[0], h.line = nil, h.line[1:]
		if m.key == "" {
			h.ready--
		}
		if batch = h.pull(batch, m, n-len(batch)); m.suspect {
			break
		}
	}
	if len(h.line) > 0 {
		h.work.Broadcast()
	}
	return batch
}

// tried ends the try of a suspect.
func (h *hand) tried() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trying = false
	h.work.Broadcast()
}
