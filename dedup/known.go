package dedup

import (
	"errors"
	"sync"

	"github.com/semel-dev/semel/store"
)

// known is how far each position has been seen committed by this guard. Where the server's is behind
// that, the server has lost commits: a replica was promoted that had not received them, or a backup
// was restored, while the consumer lived. The next message would move the position over what was
// lost.
//
// It has the partitions of which somebody has asked for the position, and no others: whoever never
// asks would not know what to do when it is refused.
type known struct {
	mu         sync.Mutex
	partitions map[partitionKey]*knownPosition
}

type knownPosition struct {
	epoch, offset int64
	refused       bool // a message was, so the consumer goes on wherever the store says next
}

// answered takes in what the store says. That a position has gone back is believed after a message was
// refused for it, and not before: whoever asks in passing, as in a silence, goes on where it is.
func (k *known) answered(log string, partition int, at store.Applied) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := partitionKey{log, partition}
	if last, ok := k.partitions[key]; ok && !last.refused && last.epoch == at.Epoch && last.offset > at.Offset {
		return
	}
	if k.partitions == nil {
		k.partitions = map[partitionKey]*knownPosition{}
	}
	k.partitions[key] = &knownPosition{epoch: at.Epoch, offset: at.Offset}
}

// tell gives each place what is known of its position.
func (k *known) tell(places []store.Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.partitions) == 0 {
		return
	}
	for len(places) > 0 {
		n := runOf(places)
		offset, _ := k.at(&places[0])
		for i := range n {
			places[i].Known = offset
		}
		places = places[n:]
	}
}

// before is what places call Known. It is nothing where nobody has asked for the position.
func (k *known) before(p *store.Place) (offset int64, asked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at(p)
}

func (k *known) at(p *store.Place) (offset int64, asked bool) {
	if at, ok := k.partitions[partitionOf(p)]; ok && at.epoch == p.Epoch {
		return at.offset + 1, true
	}
	return 0, false
}

// settled takes in what became of the messages at these places. What is settled the position has
// passed, whatever the outcome: where positions are kept the guard commits duplicates too. A COMMIT
// whose answer was lost has not been seen.
func (k *known) settled(places []store.Place, results []Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(results) == 0 || len(k.partitions) == 0 {
		return
	}
	places = places[:len(results)]
	passed, last := places, len(places)-1
	if !results[last].Outcome.Settled() { // no other one may be unsettled
		passed = places[:last]
	}
	for len(passed) > 0 {
		n := runOf(passed)
		furthest := passed[0].Offset
		for i := 1; i < n; i++ {
			furthest = max(furthest, passed[i].Offset)
		}
		if at, ok := k.partitions[partitionOf(&passed[0])]; ok && at.epoch == passed[0].Epoch {
			at.offset, at.refused = max(at.offset, furthest), false
		}
		passed = passed[n:]
	}
	if at, ok := k.partitions[partitionOf(&places[last])]; ok && errors.Is(results[last].Err, store.ErrLost) {
		at.refused = true
	}
}

func partitionOf(p *store.Place) partitionKey { return partitionKey{p.Log, p.Partition} }

// runOf returns how many of the places, from the first one on, have one position. Most messages come in
// runs of a partition, which are looked up once.
func runOf(places []store.Place) int {
	n := 1
	for n < len(places) && haveOnePosition(&places[0], &places[n]) {
		n++
	}
	return n
}

func haveOnePosition(p, q *store.Place) bool {
	return p.Partition == q.Partition && p.Epoch == q.Epoch && p.Log == q.Log
}
