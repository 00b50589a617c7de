package natssub

import (
	"sync"
	"time"
)

// arrival is what became of a message that came in.
type arrival uint8

const (
	taken arrival = iota + 1
	// copied: it is in hand already. One answer settles all copies of a delivery, so the
	// later one is dropped.
	copied
	// late: the hand is closed or paused.
	late
)

// hand is everything between the server and an answer. What it holds gets heartbeats. No step of it
// looks at all that it holds, or the cost of a message would grow with the hand.
type hand struct {
	limit   int
	ordered bool

	mu   sync.Mutex
	work sync.Cond // for lanes: there may be something to take
	room sync.Cond // for the intake: there may be room
	held map[place]*held

	// line waits for a lane: messages without a key, and the first of each strand that may go on.
	// Ready is how many lanes may take, those behind the first ones of strands included.
	line  []*held
	ready int
	// suspects wait apart and are tried one at a time.
	suspects []*held
	trying   bool
	// resting are messages whose retry is not due. Their timers put them into the line again.
	resting map[*held]*time.Timer
	// strands are the keys of what is in hand; nil where keys have no order. Stranded is how many
	// messages of them wait for those of their key.
	strands  map[string]*strand
	stranded int

	// hungry counts lanes that could do with more than there is to take.
	hungry int
	paused bool
	closed bool
}

func newHand(limit int, ordered, keyed bool) *hand {
	h := &hand{limit: limit, ordered: ordered, held: make(map[place]*held), resting: make(map[*held]*time.Timer)}
	if keyed {
		h.strands = make(map[string]*strand)
	}
	h.work.L, h.room.L = &h.mu, &h.mu
	return h
}

func (h *hand) add(m *held) arrival {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.paused {
		return late
	}
	if there := h.held[m.place]; there != nil {
		there.deliveries = max(there.deliveries, m.deliveries)
		return copied
	}
	h.held[m.place] = m
	if m.key == "" || h.join(m) {
		h.enqueue(m)
	}
	return taken
}

// deliveries is the server's count, that of later copies included.
func (h *hand) deliveries(m *held) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return m.deliveries
}

// drop takes messages out of the hand. It comes before a nak: the server may deliver the
// message again at once, and it must not be taken for a copy.
func (h *hand) drop(ms ...*held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range ms {
		if h.held[m.place] == m {
			delete(h.held, m.place)
			h.room.Signal()
		}
	}
}

// free waits until a request for more is worth its while, because half of the hand is free
// or a lane is hungry, and returns how many there is room for; 0 when the hand is closed. While it
// is paused there is room for nothing.
func (h *hand) free() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed {
		n := h.limit - len(h.held)
		if n > 0 && !h.paused && (2*n >= h.limit || h.hungry > 0) {
			return n
		}
		h.room.Wait()
	}
	return 0
}

func (h *hand) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// all returns what is in hand at this moment.
func (h *hand) all() []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*held, 0, len(h.held))
	for _, m := range h.held {
		list = append(list, m)
	}
	return list
}

// pause lets nothing in until resume, and returns what no lane has taken.
func (h *hand) pause() []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = true
	return h.empty()
}

func (h *hand) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = false
	h.room.Broadcast()
}

// close lets nothing more in or out and returns what no lane has taken.
func (h *hand) close() []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.room.Broadcast()
	return h.empty()
}

func (h *hand) empty() []*held {
	rest := append(h.suspects, h.line...)
	for m, timer := range h.resting {
		timer.Stop()
		rest = append(rest, m)
	}
	if h.strands != nil {
		rest = h.unravel(rest)
	}
	h.line, h.suspects = nil, nil
	h.ready, h.stranded = 0, 0
	clear(h.resting)
	h.work.Broadcast()
	return rest
}
