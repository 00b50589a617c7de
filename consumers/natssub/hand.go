package natssub

import (
	"math/rand/v2"
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

// hand is everything between the server and an answer. What it holds gets heartbeats.
type hand struct {
	limit   int
	ordered bool

	mu   sync.Mutex
	work sync.Cond // for lanes: there may be something to take
	room sync.Cond // for the intake: there may be room
	held map[place]*held
	turn uint64 // of the next arrival
	// busy are the keys of messages that lanes have; nil where keys have no order.
	busy map[string]bool
	// line waits for a lane, in turn. Suspects wait apart and are tried one at a time.
	line, suspects []*held
	trying         bool
	// filling counts lanes that wait for their batch to fill.
	filling int
	paused  bool
	closed  bool
}

func newHand(limit int, ordered, keyed bool) *hand {
	h := &hand{limit: limit, ordered: ordered, held: make(map[place]*held)}
	if keyed {
		h.busy = make(map[string]bool)
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
	m.turn = h.turn
	h.turn++
	if m.suspect && !h.ordered && m.key == "" {
		h.suspects = append(h.suspects, m)
	} else {
		h.line = append(h.line, m)
	}
	h.work.Broadcast()
	return taken
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
		ready, wait := h.ready()
		if len(ready) > 0 {
			left := linger - time.Since(ready[0].arrived)
			if len(ready) >= fill || left <= 0 {
				return h.takeLine(ready, share(len(ready)))
			}
			wait = left
		}
		if len(ready) == 0 && len(h.line) == 0 {
			h.work.Wait()
			continue
		}
		h.await(wait)
	}
	return nil
}

// await waits until something changes, no longer than limit. What is in line cannot be handled
// yet, so more may be asked for.
func (h *hand) await(limit time.Duration) {
	h.filling++
	h.room.Signal()
	alarm := time.AfterFunc(limit, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.work.Broadcast()
	})
	h.work.Wait()
	alarm.Stop()
	h.filling--
}

// takeSuspect returns one suspect at a time, and any of them: if one of them ends the
// process, the others are tried before it in half of the rounds, and are gone from here
// long before their own deliveries are used up.
func (h *hand) takeSuspect() *held {
	if h.trying || len(h.suspects) == 0 {
		return nil
	}
	i := rand.IntN(len(h.suspects))
	s, last := h.suspects[i], len(h.suspects)-1
	h.suspects[i], h.suspects[last] = h.suspects[last], nil
	h.suspects = h.suspects[:last]
	h.trying = true
	return s
}

// takeLine takes the first n that are ready, a suspect alone.
func (h *hand) takeLine(ready []*held, n int) []*held {
	n = min(max(n, 1), len(ready))
	for i := 1; i < n; i++ {
		if ready[i].suspect || ready[0].suspect {
			n = i
		}
	}
	batch := ready[:n:n]
	if h.busy == nil {
		h.line = h.line[n:]
	} else {
		h.takeKeys(batch)
	}
	if len(h.line) > 0 {
		h.work.Broadcast()
	}
	return batch
}

// deliveries is the server's count, that of later copies included.
func (h *hand) deliveries(m *held) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return m.deliveries
}

// tried ends the try of a suspect.
func (h *hand) tried() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trying = false
	h.work.Broadcast()
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
// or a batch waits to be filled, and returns how many there is room for; 0 when the hand is
// closed.
func (h *hand) free() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed {
		n := h.limit - len(h.held)
		if n > 0 && (2*n >= h.limit || h.filling > 0) {
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
	rest := append(h.line, h.suspects...)
	h.line, h.suspects = nil, nil
	h.work.Broadcast()
	return rest
}
