package natssub

import (
	"slices"
	"time"
)

// strand is what is in hand of one key. It goes through the line, the suspects or a rest by its first
// message, and the others follow it.
type strand struct {
	// waiting are in the order in which they arrived; what a lane has is not among them.
	waiting []*held
	// due is when the first of them may run again.
	due time.Time
	// taken: a lane has messages of the key. Lined: the first of those that wait is in line.
	taken, lined bool
}

// join puts a message behind those of its key, and reports whether it is the first.
func (h *hand) join(m *held) bool {
	s := h.strands[m.key]
	switch {
	case s == nil:
		h.strands[m.key] = &strand{waiting: []*held{m}}
		h.stranded++
		return true
	case s.lined:
		h.ready++
		h.work.Broadcast()
	default:
		h.stranded++
	}
	s.waiting = append(s.waiting, m)
	return false
}

// loosen notes that the message is in line, and returns how many may be taken with it.
func (h *hand) loosen(m *held) int {
	s := h.strands[m.key]
	if s == nil {
		return 1
	}
	s.lined = true
	h.stranded -= len(s.waiting)
	return len(s.waiting)
}

// pull appends to the batch the message and up to n in all of its strand, a suspect alone. The rest of the
// strand waits until the lane leaves it.
func (h *hand) pull(batch []*held, m *held, n int) []*held {
	s := h.strands[m.key]
	if s == nil {
		return append(batch, m)
	}
	if s.lined {
		h.ready -= len(s.waiting)
	} else {
		h.stranded -= len(s.waiting)
	}
	take := 1
	for !m.suspect && take < min(n, len(s.waiting)) && !s.waiting[take].suspect {
		take++
	}
	batch = append(batch, s.waiting[:take]...)
	clear(s.waiting[:take])
	s.waiting, s.lined, s.taken = s.waiting[take:], false, true
	h.stranded += len(s.waiting)
	return batch
}

// back puts messages of a lane in front of their strand again; the first is due after the delay.
// It reports false when the hand is closed or paused.
func (h *hand) back(ms []*held, after time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.paused {
		return false
	}
	s := h.strands[ms[0].key]
	s.waiting, s.due = slices.Concat(ms, s.waiting), time.Now().Add(after)
	h.stranded += len(ms)
	return true
}

// leave lets the strands of a batch that a lane took go on.
func (h *hand) leave(keys []string) {
	if len(keys) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		s := h.strands[key]
		if s == nil || !s.taken {
			continue // The batch had several messages of it.
		}
		s.taken = false
		rest := time.Until(s.due)
		switch {
		case len(s.waiting) == 0:
			delete(h.strands, key)
		case rest > 0:
			h.sleep(s.waiting[0], rest)
		default:
			h.enqueue(s.waiting[0])
		}
	}
}

// unravel adds to messages without a key everything that waits in strands.
func (h *hand) unravel(ms []*held) []*held {
	ms = slices.DeleteFunc(ms, func(m *held) bool { return m.key != "" })
	for key, s := range h.strands {
		ms = append(ms, s.waiting...)
		s.waiting, s.due, s.lined = nil, time.Time{}, false
		if !s.taken {
			delete(h.strands, key)
		}
	}
	return ms
}
