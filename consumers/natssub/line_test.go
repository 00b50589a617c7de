package natssub

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func one(int) int { return 1 }

func TestARestEndsWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand(10, false, false)
		begun := time.Now()
		for i := range uint64(2) {
			m := message(i, 1)
			m.suspect = i == 1
			h.add(m)
			taken := h.take(1, 0, one)
			if m.suspect {
				h.tried()
			}
			h.rest(taken[0], time.Duration(i+1)*time.Minute)
		}
		for i := range uint64(2) {
			m := h.take(1, 0, one)[0]
			if after := time.Since(begun); m.place.sequence != i || after != time.Duration(i+1)*time.Minute {
				t.Errorf("message %d after %s", m.place.sequence, after)
			}
		}
		h.close()
	})
}

func TestWhatRestsEndsWithTheHandAndIsReturnedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keyed := range []bool{false, true} {
			h := newHand(10, false, keyed)
			for i := range uint64(6) {
				m := message(i, 1)
				if m.suspect = i == 2; keyed && i%2 == 0 {
					m.key = "a"
				}
				h.add(m)
			}
			first := h.take(1, 0, one)
			for first[0].suspect { // suspects come first
				h.tried()
				first = h.take(1, 0, one)
			}
			if first[0].key != "" {
				h.back(first, time.Minute)
				h.leave([]string{"a"})
			} else {
				h.rest(first[0], time.Minute)
			}
			rest := map[*held]bool{}
			for _, m := range h.pause() {
				if rest[m] {
					t.Errorf("message %d is returned twice", m.place.sequence)
				}
				rest[m] = true
			}
			if !rest[first[0]] || len(rest) < 5 {
				t.Errorf("%d messages, with the one at rest: %t", len(rest), rest[first[0]])
			}
			if h.rest(first[0], 0) || h.add(message(7, 1)) != late {
				t.Error("a paused hand takes something in")
			}
			if again := h.pause(); len(again) > 0 {
				t.Errorf("%d messages are returned by another pause", len(again))
			}
			h.resume()
			time.Sleep(time.Hour) // of the clock of this test
			h.add(message(8, 1))
			if m := h.take(1, 0, one)[0]; m.place.sequence != 8 {
				t.Errorf("message %d comes back after the pause", m.place.sequence)
			}
			h.close()
		}
	})
}

// asked tells how many messages there is room for, or -1 while that is not worth a request.
func asked(h *hand) *int {
	n := -1
	go func() { n = h.free() }()
	synctest.Wait()
	return &n
}

// More than half of the hand rests or waits for a key. It takes its room, and the rest of the hand goes on.
func TestWhatRestsTakesItsRoomAndNoMore(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHand(4, false, keyed)
			for i := range uint64(3) {
				m := message(i, 1)
				if keyed {
					m.key = "a"
				}
				h.add(m)
			}
			if keyed {
				h.back(h.take(1, 0, one), time.Hour)
				h.leave([]string{"a"})
			} else {
				for range 3 {
					h.rest(h.take(1, 0, one)[0], time.Hour)
				}
			}
			n := asked(h)
			if *n != -1 {
				t.Errorf("room for %d is asked for, though no lane needs it", *n)
			}
			go h.take(1, 0, one)
			if synctest.Wait(); *n != 1 {
				t.Errorf("a lane has nothing to do, and room for %d is asked for, want 1", *n)
			}
			h.add(message(9, 1))
			go h.take(1, 0, one)
			if n := asked(h); *n != -1 {
				t.Errorf("the hand is full, and room for %d is asked for", *n)
			}
			h.close()
		})
	}
}

func TestALaneThatHasNothingToDoNoticesThatAMessageRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand(4, false, false)
		var ms []*held
		for i := range uint64(3) {
			h.add(message(i, 1))
			ms = append(ms, h.take(1, 0, one)...)
		}
		go h.take(1, 0, one)
		n := asked(h)
		if *n != -1 {
			t.Errorf("room for %d is asked for while all of the hand is at work", *n)
		}
		h.rest(ms[0], time.Hour)
		if synctest.Wait(); *n != 1 {
			t.Errorf("room for %d is asked for, want 1", *n)
		}
		h.close()
	})
}

func TestAPausedHandHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand(4, false, false)
		h.pause()
		n := asked(h)
		if *n != -1 {
			t.Errorf("room for %d is asked for while the hand is paused", *n)
		}
		h.resume()
		if synctest.Wait(); *n != 4 {
			t.Errorf("room for %d after that, want 4", *n)
		}
		h.close()
	})
}

// What it costs to hand a message over depends on what is handed over, not on what else is in hand.
func TestTheCostOfAMessageDoesNotGrowWithTheHand(t *testing.T) {
	cost := func(size, batch int, blocked bool) uint64 {
		h := newHand(size, false, true)
		if blocked { // behind a message that a lane has
			for i := range size / 2 {
				m := message(uint64(i), 1)
				m.key = "blocked"
				h.add(m)
			}
			h.take(1, 0, one)
		}
		for i := range size / 2 {
			m := message(uint64(size+i), 1)
			m.key = string(rune('a' + i%100))
			h.add(m)
		}
		const handed = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range handed {
			ms := h.take(1, 0, func(int) int { return batch })
			keys := h.keysOf(ms)
			h.drop(ms...)
			h.leave(keys)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / handed
	}
	for _, blocked := range []bool{false, true} {
		for _, batch := range []int{1, 10} {
			small, large := cost(1000, batch, blocked), cost(50000, batch, blocked)
			if large > 2*small+1000 {
				t.Errorf("batches of %d, blocked %t: %d bytes in a hand of 1000, %d in one of 50000", batch, blocked, small, large)
			}
		}
	}
}
