package kafkasub

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The tracker against the plainest way to say the same: a list of what is settled.
func TestTrackerPassesOnlyOverWhatIsSettledWithoutAGap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		const places = 7
		tr := newTracker(places)
		type spot struct {
			number uint64
			next   int64
			done   bool
			again  bool
		}
		var model []spot
		offset := int64(0)
		for range 500 {
			switch open := slices.IndexFunc(model, func(s spot) bool { return !s.done }); {
			case tr.free() != places-len(model):
				t.Fatalf("%d places are free, want %d", tr.free(), places-len(model))
			case r.IntN(10) == 0:
				if tr.extend(offset) != (len(model) > 0) {
					t.Fatal("a marker with nothing before it was taken up, or one with something was not")
				}
				offset++
				if len(model) > 0 {
					model[len(model)-1].next = offset
				}
			case tr.free() > 0 && r.IntN(40) == 0:
				offset = 0
				tr.restart(offset)
				model = append(model, spot{next: offset, done: true, again: true})
			case tr.free() > 0 && r.IntN(2) == 0:
				offset += r.Int64N(3) // holes, as compaction leaves them
				model = append(model, spot{number: tr.add(offset), next: offset + 1})
				offset++
			case open >= 0:
				i := open + r.IntN(len(model)-open)
				if !model[i].again {
					model[i].done = true
					tr.finish([]uint64{model[i].number})
				}
			}
			var want spot
			passed := 0
			for len(model) > 0 && model[0].done {
				want.next, want.again = model[0].next, want.again || model[0].again
				model, passed = model[1:], passed+1
			}
			if next, again, moved := tr.advance(); moved != (passed > 0) || next != want.next || again != want.again {
				t.Fatalf("seed %d: advance = %d, %t, %t; want %d, %t after %d", seed, next, again, moved, want.next, want.again, passed)
			}
		}
	}
}
