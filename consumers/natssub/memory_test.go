package natssub

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func message(sequence uint64, deliveries int) *held {
	return &held{place: place{sequence: sequence, stored: 1}, deliveries: deliveries}
}

func TestMemoryTellsAttemptsFromDeliveriesThatVanished(t *testing.T) {
	m := newMemory(100)
	first := message(1, 3) // Two deliveries went elsewhere.
	m.recall(first)
	if first.spent != 0 || first.vanished != 2 || !first.suspect {
		t.Errorf("an unknown message delivered three times: %+v, suspect %v", first.history, first.suspect)
	}
	first.spent, first.streak = 1, 4
	m.remember(first)

	for range 2 { // What was given back from here and comes back here vanished nowhere.
		again := message(1, 4)
		m.recall(again)
		if again.history != (history{spent: 1, streak: 4, vanished: 2}) {
			t.Errorf("remembered %+v", again.history)
		}
	}
	elsewhere := message(1, 6)
	m.recall(elsewhere)
	if elsewhere.vanished != 4 {
		t.Errorf("%d vanished, want 4", elsewhere.vanished)
	}
	other := message(1, 1)
	other.place.stored = 2 // The same sequence in a stream made again.
	m.recall(other)
	if other.history != (history{}) {
		t.Errorf("a message of another stream inherits %+v", other.history)
	}
	m.forget(first)
	anew := message(1, 1)
	m.recall(anew)
	if anew.history != (history{}) {
		t.Errorf("a forgotten message is remembered: %+v", anew.history)
	}
}

func TestMemoryIsBoundedAndForgetsTheOldest(t *testing.T) {
	m := newMemory(100)
	for i := range uint64(1000) {
		h := message(i, 1)
		h.spent = 1
		m.remember(h)
		if n := len(m.new) + len(m.old); n > 100 {
			t.Fatalf("%d records", n)
		}
	}
	for i := range uint64(50) {
		h := message(999-i, 1)
		if m.recall(h); h.spent != 1 {
			t.Fatalf("one of the last 50 is forgotten: %d", 999-i)
		}
	}
}

// If one of many suspects ends the process each time it is tried, the others must get through
// in the rounds before it is buried, and not be buried with it.
func TestSuspectsGetPastTheOneThatEndsTheProcess(t *testing.T) {
	left := map[uint64]bool{}
	for i := range uint64(100) {
		left[i] = true
	}
	for range minVanished * 2 { // twice, so that chance does not decide the test
		h := newHand(1000, false, false)
		for i := range left {
			m := message(i, 3)
			m.suspect = true
			h.add(m)
		}
		for {
			s := h.take(1, 0, func(int) int { return 16 })
			if len(s) != 1 {
				t.Fatalf("%d suspects at once", len(s))
			}
			if s[0].place.sequence == 0 {
				break // the process ends
			}
			delete(left, s[0].place.sequence)
			h.drop(s[0])
			h.tried()
		}
	}
	if len(left) > 10 {
		t.Errorf("%d of 100 messages never got past it", len(left)-1)
	}
}

func TestTheLineIsTakenFromTheFrontAndASuspectAlone(t *testing.T) {
	h := newHand(100, true, false)
	for i := range uint64(6) {
		m := message(i, 1)
		m.suspect = i == 2
		h.add(m)
	}
	var got [][]uint64
	for range 4 {
		var taken []uint64
		for _, m := range h.take(1, 0, func(int) int { return 2 }) {
			taken = append(taken, m.place.sequence)
		}
		got = append(got, taken)
	}
	want := [][]uint64{{0, 1}, {2}, {3, 4}, {5}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("taken %v, want %v", got, want)
	}
	for _, m := range h.close() {
		t.Errorf("message %d is left", m.place.sequence)
	}
}

func TestAPausedHandTakesNothingIn(t *testing.T) {
	h := newHand(10, false, false)
	h.add(message(1, 1))
	if rest := h.pause(); len(rest) != 1 {
		t.Errorf("%d messages left, want 1", len(rest))
	}
	if got := h.add(message(2, 1)); got != late {
		t.Errorf("arrival %d while paused, want late", got)
	}
	h.resume()
	if got := h.add(message(3, 1)); got != taken {
		t.Errorf("arrival %d after that, want taken", got)
	}
}

// beaten counts heartbeats.
type beaten struct {
	jetstream.Msg
	beats int
}

func (b *beaten) InProgress() error {
	b.beats++
	return nil
}

// A heartbeat behind a nak would undo it: the server would wait for the whole ack wait.
func TestAnAnsweredMessageGetsNoHeartbeat(t *testing.T) {
	msg := &beaten{}
	h := message(1, 1)
	h.msg = msg
	for range 2 {
		if err := h.beat(); err != nil {
			t.Fatal(err)
		}
	}
	h.hush()
	if err := h.beat(); err != nil || msg.beats != 2 {
		t.Errorf("%d heartbeats, want 2 (%v)", msg.beats, err)
	}
}
