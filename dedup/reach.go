package dedup

import (
	"context"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
)

const (
	reachEvery = 10 * time.Second
	reachLimit = 2 * time.Second
)

// reach tells the store, now and then, how far the consumer has come in the time of its messages;
// the removal of old marks follows that. What is told late only delays a removal.
type reach struct {
	store store.Retention

	mu     sync.Mutex
	newest map[partitionKey]time.Time // not told yet
	told   time.Time
}

type partitionKey struct {
	log       string
	partition int
}

func newReach(s store.Retention) *reach {
	return &reach{store: s, newest: map[partitionKey]time.Time{}}
}

// note takes in the settled messages, and tells the store if it is time to.
func (r *reach) note(ctx context.Context, scope store.Scope, ms []Message, results []Result) {
	if r == nil {
		return
	}
	if due := r.add(ms, results); due != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachLimit)
		defer cancel()
		if err := r.store.Reached(limited, scope, due); err != nil {
			r.putBack(due)
		}
	}
}

func (r *reach) add(ms []Message, results []Result) []store.Reach {
	if n := len(results); n > 0 && !results[n-1].Outcome.Settled() {
		ms = ms[:n-1] // only the last one may be unsettled
	} else {
		ms = ms[:n]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(ms) > 0 { // most come in runs of one partition
		first := &ms[0].Position
		newest, n := first.Time, 1
		for ; n < len(ms) && ms[n].Position.Partition == first.Partition && ms[n].Position.Log == first.Log; n++ {
			if at := ms[n].Position.Time; at.After(newest) {
				newest = at
			}
		}
		r.raise(partitionKey{first.Log, first.Partition}, newest)
		ms = ms[n:]
	}
	if len(r.newest) == 0 || time.Since(r.told) < reachEvery {
		return nil
	}
	r.told = time.Now()
	due := make([]store.Reach, 0, len(r.newest))
	for k, newest := range r.newest {
		due = append(due, store.Reach{Log: k.log, Partition: k.partition, Newest: newest})
	}
	clear(r.newest)
	return due
}

func (r *reach) raise(k partitionKey, at time.Time) {
	if before, ok := r.newest[k]; !ok || at.After(before) {
		r.newest[k] = at
	}
}

func (r *reach) putBack(due []store.Reach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range due {
		r.raise(partitionKey{d.Log, d.Partition}, d.Newest)
	}
}
