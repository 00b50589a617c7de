package pgsql

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/semel-dev/semel/store"
)

// Orders are the ordering keys of one scope that [Parked] asks for.
type Orders struct {
	Scope store.Scope
	IDs   []store.ID
}

// OrdersOf sorts by scope the ordering keys of those marks that are asked for, each once. The order is the
// same in every process and with every client, as [Parked] locks what it finds.
func OrdersOf(marks []store.Mark, asks func(i int) bool) []Orders {
	var all []Orders
	for i := range marks {
		if marks[i].Order.IsZero() || !asks(i) {
			continue
		}
		n := slices.IndexFunc(all, func(o Orders) bool { return o.Scope == marks[i].Scope })
		if n < 0 {
			n = len(all)
			all = append(all, Orders{Scope: marks[i].Scope})
		}
		all[n].IDs = append(all[n].IDs, marks[i].Order)
	}
	for n := range all {
		slices.SortFunc(all[n].IDs, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
		all[n].IDs = slices.Compact(all[n].IDs)
	}
	slices.SortFunc(all, func(a, b Orders) int { return cmp.Compare(a.Scope, b.Scope) })
	return all
}

// ParkedKey is an ordering key that was found parked.
type ParkedKey struct {
	Scope store.Scope
	Order store.ID
}

// Block turns what is new and belongs to one of the keys that were found parked.
func Block(marks []store.Mark, status []store.Status, parked map[ParkedKey]bool) {
	if len(parked) == 0 {
		return // as nearly always
	}
	for i := range marks {
		if status[i] == store.New && parked[ParkedKey{marks[i].Scope, marks[i].Order}] {
			status[i] = store.Blocked
		}
	}
}
