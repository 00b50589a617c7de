package main

import (
	"cmp"
	"slices"
)

// tally is what the first process has heard from the others.
type tally struct {
	payments map[string][]sighting // in the bank's worker, by payment
	receipts map[string][]sighting // in the receiver, by event
	settled  map[string]map[place]bool
	copies   int // in the bank's worker, as they come
	fates    map[fate]int
	kills    map[string]int // by role
}

func newTally() *tally {
	return &tally{
		payments: map[string][]sighting{}, receipts: map[string][]sighting{},
		settled: map[string]map[place]bool{roleWorker: {}, roleReceiver: {}},
		fates:   map[fate]int{}, kills: map[string]int{},
	}
}

func (t *tally) add(role string, r report) {
	if r.Attempt != "" {
		t.fates[r.Attempt]++
	}
	if r.Seen == nil {
		return
	}
	seen := t.payments
	if role == roleReceiver {
		seen = t.receipts
	}
	if role == roleWorker && (r.Seen.Outcome == "duplicate" || r.Seen.applied() && slices.ContainsFunc(seen[r.Seen.ID], sighting.applied)) {
		t.copies++
	}
	seen[r.Seen.ID] = append(seen[r.Seen.ID], *r.Seen)
	if r.Seen.settled() {
		t.settled[role][r.Seen.place] = true
	}
}

// settledVia counts the different places on a broker of which the role has settled the message.
func (t *tally) settledVia(role, via string) (n int) {
	for p := range t.settled[role] {
		if p.Via == via {
			n++
		}
	}
	return n
}

// counts sums up what a consumer has seen.
type counts struct {
	Delivered int // ends of messages, as far as they were reported
	Unheard   int // messages that were applied by a process that was killed before it could say so
	Undone    int // rolled back, or with an unknown end, and delivered again

	// Copies of something that had been applied, by cause.
	Again int // the same record or message once more: after a crash, or after a lost acknowledgement
	Twice int // produced more than once on one broker
	Both  int // came over the other broker as well

	Overlapping int // copies in hand at the same moment as the first; they are counted above, too
}

func (c counts) copies() int { return c.Again + c.Twice + c.Both }

// count tells copies from firsts and finds out where they come from. It does not rely on what
// the guard calls a duplicate, so it counts the same way where there is none.
func count(byID map[string][]sighting, via ...string) (c counts) {
	for _, seen := range byID {
		seen = slices.DeleteFunc(slices.Clone(seen), func(s sighting) bool {
			return len(via) > 0 && !slices.Contains(via, s.Via)
		})
		slices.SortStableFunc(seen, func(a, b sighting) int { return cmp.Compare(a.Ended, b.Ended) })
		c.Delivered += len(seen)
		c.Undone += len(seen)
		seen = slices.DeleteFunc(seen, func(s sighting) bool { return !s.settled() })
		c.Undone -= len(seen)
		c.addCopies(seen)
	}
	return c
}

// addCopies goes through what has been settled under one identity.
func (c *counts) addCopies(seen []sighting) {
	if len(seen) == 0 {
		return
	}
	first := slices.IndexFunc(seen, sighting.applied)
	heard := first >= 0
	if !heard {
		// It was applied, for here are its duplicates. The broker was not told either, so the
		// message that did it is among these, delivered again.
		c.Unheard++
		first = 0
	}
	places := map[place]bool{}
	for i, s := range seen {
		switch {
		case i == first && heard:
		case s.place == seen[first].place, places[s.place]:
			c.Again++
		case s.Via == seen[first].Via:
			c.Twice++
		default:
			c.Both++
		}
		places[s.place] = true
		if heard && s.overlaps(seen[first]) {
			c.Overlapping++
		}
	}
}

func (s sighting) applied() bool { return s.Outcome == "applied" }

func (s sighting) settled() bool {
	return s.applied() || s.Outcome == "duplicate" || s.Outcome == "buried"
}

// overlaps says that two copies were in hand at the same time. What was in the same call was
// handled one after the other.
func (s sighting) overlaps(other sighting) bool {
	sameCall := s.Began == other.Began && s.Ended == other.Ended
	return s.place != other.place && !sameCall && s.Began < other.Ended && other.Began < s.Ended
}
