package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// place is where held rows lie.
type place struct {
	routeID
	slot int16
}

func placeOf(r *store.Row) place { return place{routeID{r.Destination, r.Topic}, r.Slot} }

// heldIn finds the lowest number of the held rows in a settlement, per place.
func heldIn(s *store.Settlement) map[place]int64 {
	lowest := map[place]int64{}
	note := func(r *store.Row) {
		if low, ok := lowest[placeOf(r)]; !ok || r.Seq < low {
			lowest[placeOf(r)] = r.Seq
		}
	}
	for i := range s.Wait {
		if s.Wait[i].State == store.Held {
			note(s.Wait[i].Row)
		}
	}
	for _, r := range s.Back {
		if r.State == store.Held {
			note(r)
		}
	}
	return lowest
}

// admitHeld takes in rows of topics that are well again, and the one that tries a topic.
func (p *pump) admitHeld(rows []*store.Row, asked *ask, now time.Time) {
	if len(asked.want.Held) == 0 {
		return
	}
	came := map[place]bool{}
	// What has been put back while the question was under way comes before the answer.
	earlier := heldIn(&p.done)
	for _, row := range rows {
		came[placeOf(row)] = true
		if it, ok := p.waiting(row); ok {
			low, ok := earlier[placeOf(row)]
			p.admitHeldRow(it, ok && low < row.Seq, asked, now)
		}
	}
	settled := heldIn(&asked.done)
	for _, w := range asked.want.Held {
		for _, n := range w.Slots {
			at := place{routeID{w.Destination, w.Topic}, n}
			r := p.routes[at.routeID]
			// Where none came, and none was held by the same round trip or is about to be, there
			// is none.
			_, before := settled[at]
			_, since := earlier[at]
			if r != nil && !came[at] && !before && !since {
				p.empty(r, n)
			}
		}
	}
}

func (p *pump) admitHeldRow(it item, late bool, asked *ask, now time.Time) {
	r := p.routeOf(&it.row.Event)
	switch k := it.key; {
	case k != nil && !k.maySend(it.row):
		// Another row of its key comes first.
		if k.mode == keyHeld && k.first == 0 {
			k.mode = keyServed
		}
		p.behind(&it, k)
		return
	case late || r != nil && r.down && !asked.probes[r]:
		p.back(&it)
		return
	}
	if r != nil && r.down {
		if r.probing != nil || hasKey(p.laneOf(it.dest, it.row).flight, &it) {
			// An earlier row of its key is under way.
			p.back(&it)
			return
		}
		it.alone, it.probe = true, true
		r.probing = it.slot
	}
	if p.passes(&it, now) {
		p.send(it)
	} else {
		p.aloneOver(&it)
	}
}
