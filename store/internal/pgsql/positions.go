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

	known int64 // the most that one of the marks knows of
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
			all = append(all, Position{Scope: marks[i].Scope, Last: place})
			if n == 0 {
				all[0].marks = make([]int, 0, len(marks)) // mostly there is but one partition
			}
		}
		p := &all[n]
		p.marks = append(p.marks, i)
		p.known = max(p.known, place.Known)
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
	return p.Reaches()
}

// Reaches is an error where the position, whether it moved or not, was before what is known to be
// committed.
func (p *Position) Reaches() error {
	if committed := p.known - 1; p.Previous < committed {
		return fmt.Errorf("position of %s/%d: it was at %d and %d had been committed, so the server has lost what it had: %w",
			p.Last.Log, p.Last.Partition, p.Previous, committed, store.ErrLost)
	}
	return nil
}

// Restart is where a new epoch begins that follows the expected one: at the offset that counts as applied
// from then on.
func Restart(expected store.Applied, offset int64) (store.Applied, error) {
	if offset < -1 {
		return store.Applied{}, fmt.Errorf("offset %d: -1 is the least, and means that nothing is applied", offset)
	}
	return store.Applied{Offset: offset, Epoch: expected.Epoch + 1}, nil
}

// NotThere is the error where [RestartFence] returns no row: the position is not the expected one.
func NotThere(expected store.Applied) error {
	return fmt.Errorf("it is not at %d in epoch %d any more: %w", expected.Offset, expected.Epoch, store.ErrLost)
}

// Judge says of each of the partition's marks on which side of the position it lies. Where keys are
// kept too, they have judged before: a mark that the position has passed is Seen whatever its key
// says, and another one is left as it is.
func (p *Position) Judge(marks []store.Mark, status []store.Status, keyless bool) {
	furthest := p.Previous
	for n, i := range p.marks {
		offset := marks[i].Place.Offset
		second := offset > p.Previous && offset <= furthest && p.isSecond(marks, n)
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
