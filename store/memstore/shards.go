package memstore

import (
	"container/heap"
	"encoding/binary"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
)

const shardCount = 64

type leases struct{ shards [shardCount]shard }

func (l *leases) init(maxLeases int) {
	// A token of the process before this one must not be larger than those of this one,
	// where something outside compares them.
	first := time.Now().UnixMicro()
	for i := range l.shards {
		l.shards[i].token = first
		l.shards[i].limit = maxLeases / shardCount
		l.shards[i].records = make(map[store.LeaseKey]*record)
	}
}

// shard picks by the key's first bytes: it is a digest, so they are as good as any.
func (l *leases) shard(key store.LeaseKey) *shard {
	return &l.shards[binary.LittleEndian.Uint64(key[:8])%shardCount]
}

// shard holds the keys that share a lock.
type shard struct {
	mu sync.Mutex
	// token is the last one given out, to any key: it grows for each of them, also over
	// a release or a removal.
	token   int64
	limit   int
	records map[store.LeaseKey]*record
	// queue has every record, the one that is forgotten first on top.
	queue queue

	// Neighbours in the array are locked by other cores.
	_ [64]byte
}

type record struct {
	key         store.LeaseKey
	token       int64
	until       time.Time
	keep        time.Duration
	done        bool
	fingerprint []byte
	result      []byte

	forgetAt time.Time
	place    int
}

// forgotten tells whether the record counts as absent.
func (r *record) forgotten(now time.Time) bool { return !now.Before(r.forgetAt) }

// lookup finds the key's record, unless its time is over: then it is removed.
func (sh *shard) lookup(key store.LeaseKey, now time.Time) (*record, bool) {
	r, known := sh.records[key]
	if known && r.forgotten(now) {
		sh.remove(r)
		return nil, false
	}
	return r, known
}

// put stores a record whose times have changed or that is new.
func (sh *shard) put(r *record) {
	r.forgetAt = r.until
	if !r.done {
		// A lease that runs out is remembered for the keep time, or the next holder would not
		// learn that it takes over.
		r.forgetAt = r.until.Add(r.keep)
	}
	if _, known := sh.records[r.key]; known {
		heap.Fix(&sh.queue, r.place)
		return
	}
	sh.records[r.key] = r
	heap.Push(&sh.queue, r)
}

func (sh *shard) remove(r *record) {
	delete(sh.records, r.key)
	heap.Remove(&sh.queue, r.place)
}

// tidy removes what is forgotten, two records at most: a claim adds one, so the shard
// shrinks, and no claim pays for all that came before it.
func (sh *shard) tidy(now time.Time) {
	for range 2 {
		if len(sh.queue) == 0 || !sh.queue[0].forgotten(now) {
			return
		}
		sh.remove(sh.queue[0])
	}
}

// queue implements [heap.Interface].
type queue []*record

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].forgetAt.Before(q[j].forgetAt) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place = i
	q[j].place = j
}

func (q *queue) Push(x any) {
	r := x.(*record)
	r.place = len(*q)
	*q = append(*q, r)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return r
}
