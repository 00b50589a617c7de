//go:build unix

package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// effect is a row of the business table.
type effect struct {
	ID, Key string
	N       int
	Seq     int64
	Lane    int
	Offset  int64
	Child   string
}

// observed is what is there in the end.
type observed struct {
	effects  []effect
	tills    int // the sum of what was counted in shared rows
	dead     []store.DeadLetter
	receipts []receipt
	lag      int
	outbox   int // events that have not left
	waiting  int // keys that are parked
}

// expected is what there should be.
type expected struct {
	consumer string
	messages map[string]message
	keys     map[string]dedup.Key // of messages whose key is not their id
}

// eventID is what the event of a message must be called, whoever handled it.
func (x expected) eventID(id string) (string, error) {
	key, ok := x.keys[id]
	if !ok {
		var err error
		if key, err = dedup.KeyOf([]byte(id)); err != nil {
			return "", err
		}
	}
	return store.ChildID(store.Origin{Consumer: x.consumer, Key: key.Stored()}.ID(), eventName).String(), nil
}

// damage is one way in which the end can be wrong.
type damage string

const (
	missing      damage = "message without an effect"
	doubled      damage = "message with more than one effect"
	stranger     damage = "effect of something that was not produced"
	poisonEffect damage = "effect of a message that cannot be handled"
	disorder     damage = "effects of a key out of order"
	sequence     damage = "sequence of a key with a gap"
	miscount     damage = "shared rows with a wrong sum"
	notDead      damage = "poison that is not among the dead letters"
	deadTwice    damage = "poison more than once among the dead letters"
	wronglyDead  damage = "sound message among the dead letters"
	unacked      damage = "messages left unacknowledged"
	unsent       damage = "events left in the outbox"
	eventMissing damage = "message without an event"
	eventWrongID damage = "event under another id"
	eventOrder   damage = "events of a key out of order"
	stillParked  damage = "keys left parked"
)

// finding is one damage, with the message that it is about, where there is one.
type finding struct {
	damage damage
	id     string
	text   string
}

// judge compares what is there with what was produced.
func judge(want expected, o observed) []finding {
	j := &judgement{messages: want.messages}
	j.effects(o.effects)
	j.counts(o)
	j.dead(o.dead)
	j.events(want, o)
	return j.findings
}

type judgement struct {
	messages map[string]message
	findings []finding
}

func (j *judgement) find(d damage, id, format string, args ...any) {
	j.findings = append(j.findings, finding{d, id, fmt.Sprintf(format, args...)})
}

func (j *judgement) effects(all []effect) {
	byID, byKey := map[string][]effect{}, map[string][]effect{}
	for _, e := range all {
		byID[e.ID] = append(byID[e.ID], e)
		byKey[e.Key] = append(byKey[e.Key], e)
		m, ok := j.messages[e.ID]
		switch {
		case !ok || m.Key != e.Key || m.N != e.N:
			j.find(stranger, e.ID, "%+v", e)
		case m.Kind.poison():
			j.find(poisonEffect, e.ID, "%s: %+v", m.Kind, e)
		}
	}
	for id, m := range j.messages {
		switch n := len(byID[id]); {
		case n == 0 && !m.Kind.poison():
			j.find(missing, id, "%+v", m)
		case n > 1:
			j.find(doubled, id, "%d effects: %+v", n, byID[id])
		}
	}
	for key, list := range byKey {
		j.order(key, list)
	}
}

// order looks at the effects of one key. The sequence must be whole for every key; that it is the
// order of production is demanded where there is one.
func (j *judgement) order(key string, list []effect) {
	slices.SortFunc(list, func(a, b effect) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, e := range list {
		if e.Seq != int64(i+1) {
			j.find(sequence, e.ID, "key %s: place %d holds number %d", key, i+1, e.Seq)
		}
	}
	seen := map[string]bool{}
	last := effect{}
	for _, e := range list {
		if seen[e.ID] {
			continue // a second effect is another damage
		}
		seen[e.ID] = true
		if m := j.messages[e.ID]; m.Key != "" && m.ordered() && e.N < last.N {
			j.find(disorder, e.ID, "key %s: message %d (%+v) came after message %d (%+v)", key, e.N, e, last.N, last)
		}
		last = e
	}
}

func (j *judgement) counts(o observed) {
	want := 0
	for _, m := range j.messages {
		if m.Kind == contended {
			want++
		}
	}
	if o.tills != want {
		j.find(miscount, "", "the sum is %d, the messages that count are %d", o.tills, want)
	}
	if o.lag != 0 {
		j.find(unacked, "", "the lag is %d", o.lag)
	}
	if o.outbox != 0 {
		j.find(unsent, "", "%d events", o.outbox)
	}
	if o.waiting != 0 {
		j.find(stillParked, "", "%d keys", o.waiting)
	}
}

// dead letters are told apart by id. Those without one are told apart by place: a producer that
// has sent such a message twice has sent two.
func (j *judgement) dead(all []store.DeadLetter) {
	letters, places := map[string]int{}, map[string]int{}
	for _, d := range all {
		m, err := parse(d.Body)
		if m = j.messages[m.ID]; err != nil || !m.Kind.poison() {
			j.find(wronglyDead, m.ID, "after %d attempts, at %d/%d: %.300s", d.Attempts, d.Partition, d.Offset, d.Reason)
			continue
		}
		letters[m.ID]++
		place := fmt.Sprintf("%d/%d", d.Partition, d.Offset)
		if places[place]++; places[place] > 1 || letters[m.ID] > 1 && m.Kind != nameless {
			j.find(deadTwice, m.ID, "%s, letter %d, at %s, reason %.100q", m.Kind, d.ID, place, d.Reason)
		}
	}
	for id, m := range j.messages {
		if m.Kind.poison() && letters[id] == 0 {
			j.find(notDead, id, "%+v", m)
		}
	}
}

func (j *judgement) events(x expected, o observed) {
	first := map[string][]string{}  // of each key: the messages whose events came first, in order
	places := map[string][]string{} // of each message: all copies of its event
	came := map[string]bool{}
	for _, r := range o.receipts {
		places[r.ID] = append(places[r.ID], r.at)
		switch want, err := x.eventID(r.ID); {
		case err != nil, r.EventID != want:
			j.find(eventWrongID, r.ID, "the event is called %q and should be %q", r.EventID, want)
		case !came[r.ID]:
			came[r.ID] = true
			first[r.Key] = append(first[r.Key], r.ID)
		}
	}
	done := map[string][]string{} // of each key: the messages in the order of their commits
	slices.SortStableFunc(o.effects, func(a, b effect) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range o.effects {
		if !came[e.ID] {
			j.find(eventMissing, e.ID, "%+v", e)
		} else if !slices.Contains(done[e.Key], e.ID) {
			done[e.Key] = append(done[e.Key], e.ID)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(done)) {
		for i, id := range done[key] {
			if i >= len(first[key]) || first[key][i] != id {
				text := fmt.Sprintf("key %s: its event should be number %d and lies at %v; there are, from two before it on", key, i+1, places[id])
				for _, other := range first[key][max(0, i-2):min(i+3, len(first[key]))] {
					text += fmt.Sprintf(" %s at %v", other, places[other])
				}
				j.find(eventOrder, id, "%s", text)
				break
			}
		}
	}
}

// count is how many findings are of a kind.
func count(findings []finding, d damage) (n int) {
	for _, f := range findings {
		if f.damage == d {
			n++
		}
	}
	return n
}
