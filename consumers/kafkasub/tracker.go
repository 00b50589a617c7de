package kafkasub

// tracker knows up to where a partition is settled without a gap, while its messages are
// settled in any order. What is settled behind one that is not keeps its place here, and nothing
// else: the places are limited, and when they are used up, reading stops.
type tracker struct {
	ring  []spot
	first uint64 // number of the oldest spot in use
	next  uint64 // number that the next one gets
}

// spot stands for one message, together with the transaction markers behind it.
type spot struct {
	next  int64 // the offset behind it
	done  bool
	again bool // no message, but where the log begins anew, at next
}

func newTracker(places int) tracker { return tracker{ring: make([]spot, places)} }

func (t *tracker) isEmpty() bool { return t.first == t.next }
func (t *tracker) free() int     { return len(t.ring) - int(t.next-t.first) }

func (t *tracker) at(n uint64) *spot { return &t.ring[n%uint64(len(t.ring))] }

// add takes a message up and returns its number. There must be a place free.
func (t *tracker) add(offset int64) uint64 {
	n := t.next
	t.next++
	*t.at(n) = spot{next: offset + 1}
	return n
}

// restart says that the messages that follow are of a log that begins anew at the offset. There
// must be a place free.
func (t *tracker) restart(offset int64) {
	*t.at(t.next) = spot{next: offset, done: true, again: true}
	t.next++
}

// extend counts the offset to the last message. It reports false where there is none to wait for.
func (t *tracker) extend(offset int64) bool {
	if t.isEmpty() {
		return false
	}
	t.at(t.next - 1).next = offset + 1
	return true
}

func (t *tracker) finish(numbers []uint64) {
	for _, n := range numbers {
		t.at(n).done = true
	}
}

// advance passes over what is settled at the front. It returns the offset behind it, and whether
// the log began anew on the way; moved is false where nothing was passed.
func (t *tracker) advance() (next int64, again, moved bool) {
	for ; !t.isEmpty() && t.at(t.first).done; t.first++ {
		s := t.at(t.first)
		next, again, moved = s.next, again || s.again, true
	}
	return next, again, moved
}
