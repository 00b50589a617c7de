package pgsql

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// scopedKey names a row: the tables are told apart by the key.
type scopedKey struct {
	scope store.Scope
	key   store.Key
}

// tables answers statements as the server does.
type tables struct {
	prints map[scopedKey]store.ID // of the marks that are there
	purged int64                  // the time before which marks have been removed
}

// set returns the keys that one statement sets, and sets none of them: what is there was committed
// before.
func (s tables) set(g *Group) (keys []store.ID) {
	for n, i := range g.Index {
		m := &g.marks[i]
		_, there := s.prints[scopedKey{g.Scope, m.Key}]
		if !there && (!g.Kind.Careful || g.Millis()[n] >= s.purged) {
			keys = append(keys, m.Key.ID)
		}
	}
	return keys
}

func (s tables) look(g *Group, index []int) map[store.ID]store.ID {
	found := map[store.ID]store.ID{}
	for _, i := range index {
		if print, there := s.prints[scopedKey{g.Scope, g.marks[i].Key}]; there {
			found[g.marks[i].Key.ID] = print
		}
	}
	return found
}

// want says what each mark is, one after another, without groups.
func (s tables) want(marks []store.Mark) []store.Status {
	set := map[scopedKey]store.ID{} // the prints of those that are set here
	status := make([]store.Status, len(marks))
	late := map[scopedKey]bool{}
	for i, m := range marks {
		row := scopedKey{m.Scope, m.Key}
		print, there := s.prints[row]
		if !there {
			print, there = set[row]
		}
		switch {
		case there && !print.IsZero() && !m.Fingerprint.IsZero() && print != m.Fingerprint:
			status[i] = store.Mismatched
		case there:
			status[i] = store.Seen
		case late[row], OwnMillis(&m) < s.purged:
			// The first of equal marks decides for all.
			late[row], status[i] = true, store.Late
		default:
			set[row], status[i] = m.Fingerprint, store.New
		}
	}
	return status
}

func anyMarks(n int) []store.Mark {
	marks := make([]store.Mark, n)
	for i := range marks {
		m := &marks[i]
		m.Scope = store.Scope(rand.IntN(2))
		m.Key.ID[15] = byte(rand.IntN(6))
		if m.Key.Timed = rand.IntN(2) == 0; m.Key.Timed {
			m.Key.ID[5] = byte(rand.IntN(4)) // the milliseconds of its time
		}
		if rand.IntN(3) == 0 {
			m.Time = time.UnixMilli(rand.Int64N(4))
		}
		if rand.IntN(3) == 0 {
			m.Fingerprint[0] = byte(rand.IntN(2) + 1)
		}
	}
	return marks
}

// Whatever the marks and whatever is there: each is judged as if it had come alone after those before it.
func TestGroupsJudgeEachMarkAsIfItHadComeAlone(t *testing.T) {
	t.Parallel()
	counts := map[store.Status]int{}
	for round := range 3000 {
		careful := round%2 == 0
		s := tables{prints: map[scopedKey]store.ID{}}
		for _, m := range anyMarks(rand.IntN(8)) {
			s.prints[scopedKey{m.Scope, m.Key}] = m.Fingerprint
		}
		if careful {
			s.purged = rand.Int64N(4)
		}
		marks := anyMarks(rand.IntN(20))
		status := make([]store.Status, len(marks))
		groups := Groups(marks, status, careful)
		for i := range groups {
			g := &groups[i]
			keys := s.set(g)
			if round%5 == 0 {
				rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			}
			for _, key := range keys {
				if err := g.Set(key); err != nil {
					t.Fatal(err)
				}
			}
			g.Judge(s.look(g, g.Unclear()))
		}
		if want := s.want(marks); !slices.Equal(status, want) {
			t.Fatalf("careful %t, removed before %d, there %v:\nmarks %+v\nare   %v\nwant  %v", careful, s.purged, s.prints, marks, status, want)
		}
		for _, one := range status {
			counts[one]++
		}
	}
	for _, status := range []store.Status{store.New, store.Seen, store.Mismatched, store.Late} {
		if counts[status] < 100 {
			t.Errorf("only %d marks were %s", counts[status], status)
		}
	}
}

// A batch that is all new, or has no fingerprints, costs no second look.
func TestGroupsAskOnlyForWhatIsUnclear(t *testing.T) {
	t.Parallel()
	mark := func(id, print byte) store.Mark {
		return store.Mark{Key: store.Key{ID: store.ID{id}}, Fingerprint: store.ID{print}}
	}
	for _, c := range []struct {
		name    string
		careful bool
		marks   []store.Mark
		set     []byte
		want    []int
	}{
		{"all new", true, []store.Mark{mark(1, 1), mark(2, 0), mark(1, 2)}, []byte{1, 2}, nil},
		{"seen without a fingerprint", false, []store.Mark{mark(2, 0), mark(1, 0), mark(2, 0)}, nil, nil},
		{"seen with one", false, []store.Mark{mark(3, 0), mark(2, 1), mark(1, 0)}, []byte{1}, []int{1}},
		{"seen, and a later one has one", false, []store.Mark{mark(1, 0), mark(2, 0), mark(1, 0), mark(1, 7)}, nil, []int{0}},
		{"seen or late", true, []store.Mark{mark(2, 0), mark(1, 0)}, []byte{2}, []int{1}},
	} {
		groups := Groups(c.marks, make([]store.Status, len(c.marks)), c.careful)
		if len(groups) != 1 {
			t.Fatalf("%s: %d groups, want 1", c.name, len(groups))
		}
		for _, id := range c.set {
			if err := groups[0].Set(store.ID{id}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if got := groups[0].Unclear(); !slices.Equal(got, c.want) {
			t.Errorf("%s: unclear are %v, want %v", c.name, got, c.want)
		}
	}
}

// Two processes lock the same marks in the same order, each key once, in the fewest statements.
func TestGroupsAreInOneOrder(t *testing.T) {
	t.Parallel()
	for range 500 {
		marks := anyMarks(rand.IntN(20) + 1)
		groups := Groups(marks, make([]store.Status, len(marks)), rand.IntN(2) == 0)
		var sent []*store.Mark
		for n := range groups {
			g := &groups[n]
			if n > 0 && g.Scope == groups[n-1].Scope && g.Kind.Timed == groups[n-1].Kind.Timed {
				t.Fatalf("groups %d and %d are of one scope and table", n-1, n)
			}
			least := g.LeastMillis()
			if least != slices.Min(g.Millis()) {
				t.Fatalf("the least of %v is not %d", g.Millis(), least)
			}
			for _, i := range g.Index {
				if marks[i].Scope != g.Scope || marks[i].Key.Timed != g.Kind.Timed || !g.Kind.Print && !marks[i].Fingerprint.IsZero() {
					t.Fatalf("%+v does not belong to the statement of %d, %+v", marks[i], g.Scope, g.Kind)
				}
				sent = append(sent, &marks[i])
			}
		}
		for n := 1; n < len(sent); n++ {
			if CompareMarks(sent[n-1], sent[n]) >= 0 {
				t.Fatalf("%+v is sent before %+v", sent[n-1], sent[n])
			}
		}
		for i := range marks {
			if !slices.ContainsFunc(sent, func(m *store.Mark) bool { return CompareMarks(m, &marks[i]) == 0 }) {
				t.Fatalf("the key of %+v is not sent", marks[i])
			}
		}
	}
}

func TestGroupsRefuseAKeyThatWasNotSent(t *testing.T) {
	t.Parallel()
	marks := []store.Mark{{Key: store.Key{ID: store.ID{1}}}}
	groups := Groups(marks, make([]store.Status, 1), false)
	if err := groups[0].Set(store.ID{2}); err == nil {
		t.Error("a key that was not sent was taken for one that was set")
	}
}
