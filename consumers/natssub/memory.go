package natssub

import "sync"

// memorySize bounds the messages whose history is remembered. The server has at most
// MaxAckPending of them under way, 1000 by default.
const memorySize = 1 << 14

// history is what this process knows of a message.
type history struct {
	// spent are the attempts used up, streak the results in a row that did not settle it.
	spent, streak int
	// vanished are deliveries whose end nobody here knows: other processes gave the message
	// back, or ended while they had it.
	vanished int
	// counted: the processor has been asked to count an attempt or a start. Begun: a start of this
	// process may stand there. Cleared: it has failed in this process and has not ended it.
	counted, begun, cleared bool
}

type record struct {
	history
	// deliveries is the server's count when the message was given back.
	deliveries int
}

// memory keeps the histories of messages that were given back. The server's own count does
// not do for them: it grows with every outage, shutdown and lost connection, none of which is
// the message's fault. Its records are bounded by forgetting the oldest half.
type memory struct {
	mu       sync.Mutex
	half     int
	new, old map[place]record
}

func newMemory(size int) *memory {
	return &memory{half: size / 2, new: map[place]record{}}
}

// recall fills in what is known of the message. Of an unknown one the attempts begin anew,
// as those of other processes cannot be told from shutdowns, but the deliveries that vanished
// are remembered by the server's count: see begin.
func (m *memory) recall(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.new[h.place]
	if !ok {
		rec = m.old[h.place]
	}
	h.history = rec.history
	h.vanished += max(h.deliveries-rec.deliveries-1, 0)
	// The first may be a deployment, or a connection that was lost.
	h.suspect = h.vanished > 1
}

func (m *memory) remember(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.old, h.place)
	m.new[h.place] = record{h.history, h.deliveries}
	if len(m.new) >= m.half {
		m.old, m.new = m.new, make(map[place]record)
	}
}

func (m *memory) forget(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.new, h.place)
	delete(m.old, h.place)
}
