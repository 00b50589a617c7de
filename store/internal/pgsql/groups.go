package pgsql

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/semel-dev/semel/store"
)

// Group are the marks that one statement sets: those of one scope in one table. [Groups] makes them,
// [Group.Set] takes the keys that came back, and [Group.Judge] says of the others why they did not.
type Group struct {
	Scope store.Scope
	Kind  Kind
	// Index is where those stand among all marks that are sent: one for each key, in the order of
	// the keys.
	Index []int

	marks  []store.Mark   // all of them
	status []store.Status // theirs
	twins  []twin         // in the order of Index
	next   int            // in Index, the one behind that which was set last
}

// twin is a mark whose key another one has that is sent.
type twin struct{ mark, of int }

// Groups sorts marks by the statements that set them, in the order of [CompareMarks]. The status of each is
// Seen until its key comes back.
func Groups(marks []store.Mark, status []store.Status, careful bool) []Group {
	order := make([]int, len(marks))
	for i := range order {
		order[i], status[i] = i, store.Seen
	}
	// Of equal marks the first one given is the one that is sent.
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(CompareMarks(&marks[i], &marks[j]), i-j) })
	var all []Group
	for len(order) > 0 {
		first := &marks[order[0]]
		n := 1
		for n < len(order) && marks[order[n]].Scope == first.Scope && marks[order[n]].Key.Timed == first.Key.Timed {
			n++
		}
		g := Group{Scope: first.Scope, Kind: Kind{Timed: first.Key.Timed, Careful: careful}, marks: marks, status: status}
		g.fill(order[:n:n])
		all = append(all, g)
		order = order[n:]
	}
	return all
}

// fill keeps the index where the order was: it is the same less the twins.
func (g *Group) fill(order []int) {
	g.Index = order[:0]
	for _, i := range order {
		g.Kind.Print = g.Kind.Print || g.isPrinted(i)
		if n := len(g.Index); n > 0 && g.marks[g.Index[n-1]].Key.ID == g.marks[i].Key.ID {
			g.twins = append(g.twins, twin{i, g.Index[n-1]})
			continue
		}
		g.Index = append(g.Index, i)
	}
}

func (g *Group) isPrinted(i int) bool { return !g.marks[i].Fingerprint.IsZero() }

// Millis are the times by which the marks that are sent are removed one day.
func (g *Group) Millis() []int64 {
	all := make([]int64, len(g.Index))
	for n, i := range g.Index {
		all[n] = OwnMillis(&g.marks[i])
	}
	return all
}

// LeastMillis is the earliest of [Group.Millis].
func (g *Group) LeastMillis() int64 {
	least := int64(math.MaxInt64)
	for _, i := range g.Index {
		least = min(least, OwnMillis(&g.marks[i]))
	}
	return least
}

// Set takes a key that came back: its mark is new. They come in the order in which they were sent,
// less those that were there, so the search rarely goes further than the next one; the server does not
// promise that order, so it may.
func (g *Group) Set(key store.ID) error {
	n := g.search(key, g.next)
	if n < 0 {
		n = g.search(key, 0)
	}
	if n < 0 {
		return fmt.Errorf("the server returned a key that was not sent: %s", key)
	}
	g.status[g.Index[n]] = store.New
	g.next = n + 1
	return nil
}

func (g *Group) search(key store.ID, from int) int {
	for n := from; n < len(g.Index); n++ {
		if g.marks[g.Index[n]].Key.ID == key {
			return n
		}
	}
	return -1
}

// Unclear are those of Index whose keys must be read before [Group.Judge]. Where the statement was
// not careful, a mark that was not set is there, and only fingerprints are in question.
func (g *Group) Unclear() []int {
	var unclear []int
	twins := g.twins
	for _, i := range g.Index {
		printed := g.isPrinted(i)
		for ; len(twins) > 0 && twins[0].of == i; twins = twins[1:] {
			printed = printed || g.isPrinted(twins[0].mark)
		}
		if g.status[i] == store.Seen && (g.Kind.Careful || printed) {
			unclear = append(unclear, i)
		}
	}
	return unclear
}

// Judge takes the fingerprints of the keys that were read and are there, zero for one without, and
// says of each mark that was not set what it is.
func (g *Group) Judge(found map[store.ID]store.ID) {
	for _, i := range g.Index {
		if g.status[i] == store.Seen {
			g.status[i] = g.judge(i, found)
		}
	}
	for _, t := range g.twins {
		switch {
		case g.status[t.of] != store.New:
			g.status[t.mark] = g.judge(t.mark, found)
		case Differ(g.marks[t.of].Fingerprint, g.marks[t.mark].Fingerprint):
			g.status[t.mark] = store.Mismatched
		}
	}
}

func (g *Group) judge(i int, found map[store.ID]store.ID) store.Status {
	print, there := found[g.marks[i].Key.ID]
	switch {
	case there && Differ(print, g.marks[i].Fingerprint):
		return store.Mismatched
	case !there && g.Kind.Careful:
		return store.Late
	default:
		return store.Seen
	}
}
