//go:build unix

package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/semel-dev/semel/dedup"
)

const idHeader = "event-id"

// kind is what a message does to its handler.
type kind string

const (
	plain     kind = "plain"
	contended kind = "contended" // changes a row that all others change
	slow      kind = "slow"      // takes ten milliseconds
	flaky     kind = "flaky"     // fails at the first attempt
	killer    kind = "killer"    // kills the first processes that touch it

	failing   kind = "failing"   // fails for ever
	hopeless  kind = "hopeless"  // fails with a permanent error
	panicking kind = "panicking" // panics for ever
	nameless  kind = "nameless"  // has no id

	suspected kind = "suspected" // was being handled when too many processes died, by chance
)

// deaths is how many processes a killer kills.
const deaths = 2

// suspicious is at how many deaths a message must have been in hand before it may be given up for it.
const suspicious = 3

func (k kind) poison() bool {
	return k == failing || k == hopeless || k == panicking || k == nameless || k == suspected
}

// message is one business event. All its copies have the same content.
type message struct {
	ID   string
	Key  string
	N    int // which one of its key, from 1
	Kind kind
	Lane int // a partition, or a subject
}

// ordered keys are produced in one lane, in order; the others anywhere.
func (m message) ordered() bool { return m.Key[0] == 'o' }

// orderOf is the ordering key of what a consumer hands over.
func orderOf(m dedup.Message) []byte {
	msg, err := parse(m.Body)
	if err != nil {
		return nil
	}
	return []byte(msg.Key)
}

func (m message) body() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

func parse(body []byte) (m message, err error) {
	if err = json.Unmarshal(body, &m); err != nil {
		err = fmt.Errorf("body %q: %w", body, err)
	}
	return m, err
}

// Lanes 0 to sequenced-1 hold ordered keys, and others beside them. The last lane holds none, and
// the consumers of NATS, where order has a price, work on it in parallel.
const (
	sequenced = 6
	lanes     = sequenced + 1

	keysPerLane = 40
	looseKeys   = 600
	chunk       = 32 // below keysPerLane: a chunk has at most one original of an ordered key
)

// plan is what is to be produced: for each lane what goes into it, in order, copies included.
type plan struct {
	messages map[string]message
	lanes    [lanes][]message
	copies   int
}

// newPlan thinks up n messages.
func newPlan(rng *rand.Rand, n int) *plan {
	p := &plan{messages: make(map[string]message, n)}
	special := specials(rng, n)
	counts := map[string]int{}
	originals := [lanes][]message{}
	for i := range n {
		m := message{ID: fmt.Sprintf("event-%06d", i), Lane: i % lanes, Kind: plain}
		turn := i / lanes
		if m.Lane == lanes-1 || turn%4 == 3 {
			m.Key = fmt.Sprintf("loose-%03d", rng.IntN(looseKeys))
		} else {
			m.Key = fmt.Sprintf("ordered-%d-%02d", m.Lane, turn%keysPerLane)
		}
		switch k, ok := special[i]; {
		case ok:
			m.Kind = k
		case i%40 == 3:
			m.Kind = contended
		case i%100 == 50:
			m.Kind = slow
		case i%100 == 77:
			m.Kind = flaky
		}
		counts[m.Key]++
		m.N = counts[m.Key]
		p.messages[m.ID] = m
		originals[m.Lane] = append(originals[m.Lane], m)
	}
	p.addCopies(rng, originals)
	return p
}

// specials are spread at random: a few of each kind that does harm.
func specials(rng *rand.Rand, n int) map[int]kind {
	special := map[int]kind{}
	place := rng.Perm(n)
	for _, k := range []kind{failing, hopeless, panicking, nameless} {
		for j := range max(1, n/2000) {
			if j == 0 {
				special[inFront(rng, n, special)] = k
				continue
			}
			special[place[0]], place = k, place[1:]
		}
	}
	for range max(2, min(6, n/10000)) {
		special[place[0]], place = killer, place[1:]
	}
	return special
}

// inFront is where a message of an ordered key has others of its key behind it.
func inFront(rng *rand.Rand, n int, special map[int]kind) int {
	for {
		i := rng.IntN(n / 4)
		if _, taken := special[i]; !taken && i%lanes < sequenced && i/lanes%4 != 3 {
			return i
		}
	}
}

// addCopies makes a producer of the lanes that does not know what it has sent. A copy in the same lane comes behind its
// original. One in another lane may overtake it, so ordered keys have none here: they are copied to
// other lanes once they are done.
func (p *plan) addCopies(rng *rand.Rand, originals [lanes][]message) {
	later := [lanes]map[int][]message{}
	for l := range later {
		later[l] = map[int][]message{}
	}
	for l, list := range originals {
		for i, m := range list {
			if m.Kind == nameless {
				continue // without an id it would be another message
			}
			switch dice := rng.IntN(100); {
			case dice < 6: // at once
				later[l][i] = append(later[l][i], m)
			case dice < 14: // some time later
				at := i + 1 + rng.IntN(200)
				later[l][at] = append(later[l][at], m)
			case dice < 34 && !m.ordered(): // elsewhere, at about the same time
				other := (l + 1 + rng.IntN(lanes-1)) % lanes
				later[other][i] = append(later[other][i], m)
			}
		}
	}
	for l, list := range originals {
		for i, m := range list {
			p.lanes[l] = append(p.lanes[l], m)
			p.lanes[l] = append(p.lanes[l], later[l][i]...)
			p.copies += len(later[l][i])
		}
	}
}
