package pgsql

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/semel-dev/semel/store"
)

// Position is where a set of marks moves the position of one partition.
type Position struct {
	Scope store.Scope
	Last  *store.Place // the furthest of the marks

	Moved    bool  // [MoveFence] returned a row
	Previous int64 // what the position was, or still is where it did not move

	marks []int // those of the partition
}

// CheckPlaces refuses marks without a place where positions are kept.
func CheckPlaces(marks []store.Mark) error {
	for i := range marks {
		if marks[i].Place == nil {
			return fmt.Errorf("mark %d of %d has no place where positions are kept", i+1, len(marks))
		}
	}
	return nil
}

// Positions sorts marks that have passed [CheckPlaces] by partition. The order is the same in every process and with every client, so
// that two batches wait for each other rather than for ever.
func Positions(marks []store.Mark) []Position {
	var all []Position
	for i := range marks {
		place := marks[i].Place
		n := slices.IndexFunc(all, func(p Position) bool { return p.isOf(&marks[i]) })
		if n < 0 {
			n = len(all)
			all = append(all, Position{Scope: marks[i].Scope, Last: place, marks: make([]int, 0, len(marks)-i)})
		}
		p := &all[n]
		p.marks = append(p.marks, i)
		if place.Offset > p.Last.Offset {
			p.Last = place
		}
	}
	slices.SortFunc(all, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Last.Log, b.Last.Log), cmp.Compare(a.Last.Partition, b.Last.Partition))
	})
	return all
}

func (p *Position) isOf(m *store.Mark) bool {
	return p.Scope == m.Scope && p.Last.Partition == m.Place.Partition && p.Last.Epoch == m.Place.Epoch && p.Last.Log == m.Place.Log
}

// Still takes what [ReadFence] found where the position did not move: nothing was to be moved, or
// somebody has begun a new epoch.
func (p *Position) Still(at store.Applied) error {
	if at.Epoch != p.Last.Epoch {
		return fmt.Errorf("position of %s/%d: epoch %d is over, it is %d now: %w", p.Last.Log, p.Last.Partition, p.Last.Epoch, at.Epoch, store.ErrLost)
	}
	p.Previous = at.Offset
	return nil
}

// Judge says of each of the partition's marks on which side of the position it lies. Where keys are
// kept too, they have judged before: a mark that the position has passed is Seen whatever its key
// says, and another one is left as it is.
func (p *Position) Judge(marks []store.Mark, status []store.Status, keyless bool) {
	furthest := p.Previous
	for n, i := range p.marks {
		offset := marks[i].Place.Offset
		second := offset <= furthest && p.isSecond(marks, n)
		furthest = max(furthest, offset)
		switch {
		case offset <= p.Previous, second:
			status[i] = store.Seen
		case keyless:
			status[i] = store.New
		}
	}
}

// isSecond: a mark before the partition's nth has the same place. Marks come in the order of their
// log, or nearly, so this is asked of few.
func (p *Position) isSecond(marks []store.Mark, n int) bool {
	return slices.ContainsFunc(p.marks[:n], func(i int) bool { return marks[i].Place.Offset == marks[p.marks[n]].Place.Offset })
}
