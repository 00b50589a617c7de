package memstore

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// graveyard holds letters in the order of their IDs. It is guarded by the store's mutex.
type graveyard struct {
	lastID  int64
	letters []store.DeadLetter
	// queues has the letters of each ordering key in their order, parked the keys that are
	// parked and since when. A parked key has letters.
	queues map[orderKey][]int64
	parked map[orderKey]time.Time
}

func (g *graveyard) init() {
	g.queues = make(map[orderKey][]int64)
	g.parked = make(map[orderKey]time.Time)
}

func (g *graveyard) isParked(k orderKey) bool {
	_, parked := g.parked[k]
	return parked
}

// exchange removes some letters and buries others. A key is released only after both.
func (g *graveyard) exchange(gone []int64, dead []store.DeadLetter, now time.Time) {
	var touched []orderKey
	for _, id := range gone {
		if i, ok := g.find(id); ok {
			if k, queued := queueOf(&g.letters[i]); queued {
				g.queues[k] = slices.DeleteFunc(g.queues[k], func(other int64) bool { return other == id })
				touched = append(touched, k)
			}
			g.letters = slices.Delete(g.letters, i, i+1)
		}
	}
	for _, d := range dead {
		g.bury(d, now)
	}
	for _, k := range touched {
		if len(g.queues[k]) == 0 {
			delete(g.queues, k)
			delete(g.parked, k)
		}
	}
}

func (g *graveyard) bury(d store.DeadLetter, now time.Time) {
	g.lastID++
	d.ID, d.BuriedAt = g.lastID, now
	g.letters = append(g.letters, d)
	k, queued := queueOf(&d)
	if !queued {
		return
	}
	g.queues[k] = append(g.queues[k], d.ID)
	if d.State == store.Dead && !g.isParked(k) {
		g.parked[k] = now
	}
}

func (g *graveyard) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(g.letters, id, func(d store.DeadLetter, id int64) int {
		return cmp.Compare(d.ID, id)
	})
}

func (g *graveyard) list(f store.LetterFilter, after int64, limit int) []store.DeadLetter {
	var found []store.DeadLetter
	from, there := g.find(after)
	if there {
		from++
	}
	for i := range g.letters[from:] {
		if len(found) >= limit {
			break
		}
		if d := &g.letters[from+i]; takes(&f, d) {
			found = append(found, cloneLetter(*d))
		}
	}
	return found
}

func takes(f *store.LetterFilter, d *store.DeadLetter) bool {
	return (f.Consumer == "" || f.Consumer == d.Consumer) &&
		(f.Order == nil || bytes.Equal(f.Order, d.Order)) &&
		(len(f.States) == 0 || slices.Contains(f.States, d.State)) &&
		(f.First == 0 || d.ID >= f.First) && (f.Last == 0 || d.ID <= f.Last) &&
		(f.Since.IsZero() || !d.BuriedAt.Before(f.Since)) && (f.Until.IsZero() || d.BuriedAt.Before(f.Until))
}

// cloneLetter copies what the caller may change: consumers reuse their buffers.
func cloneLetter(d store.DeadLetter) store.DeadLetter {
	d.KeyText = bytes.Clone(d.KeyText)
	d.Order = bytes.Clone(d.Order)
	d.MessageKey = bytes.Clone(d.MessageKey)
	d.Body = bytes.Clone(d.Body)
	d.Headers = slices.Clone(d.Headers)
	for i := range d.Headers {
		d.Headers[i].Value = bytes.Clone(d.Headers[i].Value)
	}
	return d
}
