package pgsql

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/semel-dev/semel/store"
)

func marksAt(partition int, offsets ...int64) []store.Mark {
	marks := make([]store.Mark, len(offsets))
	for i, offset := range offsets {
		marks[i].Place = &store.Place{Log: "orders", Partition: partition, Offset: offset}
	}
	return marks
}

// Whatever the order of the offsets: those at or before the position are seen, and so is every
// one but the first at a place.
func TestPositionsJudgeEachPlaceOnce(t *testing.T) {
	t.Parallel()
	for range 2000 {
		previous := rand.Int64N(10) - 1
		offsets := make([]int64, rand.IntN(12)+1)
		for i := range offsets {
			offsets[i] = rand.Int64N(15)
		}
		marks := marksAt(3, offsets...)
		positions := Positions(marks)
		if len(positions) != 1 || positions[0].Last.Offset != slices.Max(offsets) {
			t.Fatalf("%v: the positions are %+v, want one at the furthest", offsets, positions)
		}
		positions[0].Previous = previous
		status := make([]store.Status, len(marks))
		positions[0].Judge(marks, status, true)
		for i, offset := range offsets {
			want := store.New
			if offset <= previous || slices.Contains(offsets[:i], offset) {
				want = store.Seen
			}
			if status[i] != want {
				t.Fatalf("behind %d, %v: number %d is %s, want %s", previous, offsets, i, status[i], want)
			}
		}
	}
}

// The keys have judged before, and a position can only take back what they have said is new.
func TestPositionsLeaveToKeysWhatTheyHaveNotPassed(t *testing.T) {
	t.Parallel()
	marks := marksAt(0, 4, 5, 6, 6)
	status := []store.Status{store.New, store.Blocked, store.Mismatched, store.New}
	p := Positions(marks)
	p[0].Previous = 4
	p[0].Judge(marks, status, false)
	if want := []store.Status{store.Seen, store.Blocked, store.Mismatched, store.Seen}; !slices.Equal(status, want) {
		t.Errorf("the statuses are %v, want %v", status, want)
	}
}

// A batch that was handled before, as after a rebalance, lies wholly behind the position.
func TestManyMarksBehindThePositionAreNotComparedWithEachOther(t *testing.T) {
	t.Parallel()
	const n = 1_000_000 // squared, it is minutes
	offsets := make([]int64, n)
	for i := range offsets {
		offsets[i] = int64(i)
	}
	marks, status := marksAt(0, offsets...), make([]store.Status, n)
	p := Positions(marks)
	p[0].Previous = n
	p[0].Judge(marks, status, true)
	if i := slices.IndexFunc(status, func(s store.Status) bool { return s != store.Seen }); i >= 0 {
		t.Errorf("number %d is %s", i, status[i])
	}
}

// The memory for a batch follows from its marks, not from their number times that of the partitions.
func TestPositionsOfManyPartitionsTakeLittle(t *testing.T) {
	t.Parallel()
	const partitions, each = 100, 100
	var marks []store.Mark
	for i := range int64(each) {
		for p := range partitions {
			marks = append(marks, marksAt(p, i)...)
		}
	}
	room := 0
	for _, p := range Positions(marks) {
		room += cap(p.marks)
	}
	if room > 4*len(marks) {
		t.Errorf("there is room for %d marks where there are %d", room, len(marks))
	}
}

func TestAnEpochFollowsTheExpectedOne(t *testing.T) {
	t.Parallel()
	expected := store.Applied{Offset: 41, Epoch: 6}
	for offset, want := range map[int64]store.Applied{-1: {Offset: -1, Epoch: 7}, 0: {Offset: 0, Epoch: 7}, 99: {Offset: 99, Epoch: 7}} {
		if got, err := Restart(expected, offset); err != nil || got != want {
			t.Errorf("at %d: it is %+v (%v), want %+v", offset, got, err, want)
		}
	}
	if _, err := Restart(expected, -2); err == nil {
		t.Error("an offset below nothing was taken")
	}
	if err := NotThere(expected); !errors.Is(err, store.ErrLost) {
		t.Errorf("%v is not the error of a position that is lost", err)
	}
}

func TestPositionsAreInOneOrder(t *testing.T) {
	t.Parallel()
	marks := slices.Concat(marksAt(7, 1, 2), marksAt(2, 9), marksAt(7, 3))
	marks = append(marks, store.Mark{Scope: -1, Place: &store.Place{Log: "z"}}, store.Mark{Place: &store.Place{Log: "a", Partition: 9}})
	want := Positions(marks)
	for range 20 {
		rand.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
		got := Positions(marks)
		if !slices.EqualFunc(got, want, func(a, b Position) bool {
			return a.Scope == b.Scope && *a.Last == *b.Last && len(a.marks) == len(b.marks)
		}) {
			t.Fatalf("the positions are %+v, want %+v", got, want)
		}
	}
	if len(want) != 4 || want[0].Last.Log != "z" || want[1].Last.Log != "a" || want[2].Last.Partition != 2 || want[3].Last.Partition != 7 {
		t.Errorf("the positions are %+v", want)
	}
}
