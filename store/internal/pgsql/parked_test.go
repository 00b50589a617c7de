package pgsql

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/semel-dev/semel/store"
)

func ordered(scope store.Scope, order byte) store.Mark {
	return store.Mark{Scope: scope, Order: store.ID{order}}
}

func TestOrdersAreAskedForOnceAndInOneOrder(t *testing.T) {
	t.Parallel()
	marks := []store.Mark{ordered(2, 9), ordered(1, 5), ordered(2, 3), ordered(1, 0), ordered(2, 9), ordered(3, 1), ordered(1, 4)}
	skipped := marks[5]
	for range 20 {
		rand.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
		got := OrdersOf(marks, func(i int) bool { return marks[i] != skipped })
		if len(got) != 2 || got[0].Scope != 1 || got[1].Scope != 2 ||
			!slices.Equal(got[0].IDs, []store.ID{{4}, {5}}) || !slices.Equal(got[1].IDs, []store.ID{{3}, {9}}) {
			t.Fatalf("asked is for %v", got)
		}
	}
}

func TestWhatIsNewBehindAParkedKeyIsBlocked(t *testing.T) {
	t.Parallel()
	marks := []store.Mark{ordered(1, 5), ordered(1, 5), ordered(1, 6), ordered(2, 5), ordered(1, 5), ordered(2, 7), ordered(1, 0)}
	status := []store.Status{store.New, store.Seen, store.New, store.New, store.New, store.New, store.New}
	want := slices.Clone(status)
	Block(marks, status, nil)
	if !slices.Equal(status, want) {
		t.Errorf("the statuses are %v where nothing is parked", status)
	}
	Block(marks, status, map[ParkedKey]bool{{1, store.ID{5}}: true, {2, store.ID{7}}: true})
	if want = []store.Status{store.Blocked, store.Seen, store.New, store.New, store.Blocked, store.Blocked, store.New}; !slices.Equal(status, want) {
		t.Errorf("the statuses are %v, want %v", status, want)
	}
}

// A batch whose every message waits is blocked in one pass, not in one for each of its keys.
func TestManyParkedKeysAreNotLookedForOneByOne(t *testing.T) {
	t.Parallel()
	const n = 200_000 // squared, it is minutes
	marks, status, parked := make([]store.Mark, n), make([]store.Status, n), make(map[ParkedKey]bool, n)
	for i := range marks {
		marks[i].Order = store.OrderID([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		status[i], parked[ParkedKey{0, marks[i].Order}] = store.New, true
	}
	Block(marks, status, parked)
	for i := range status {
		if status[i] != store.Blocked {
			t.Fatalf("mark %d is %s", i, status[i])
		}
	}
}
