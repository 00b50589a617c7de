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
	newest map[reachKey]time.Time // not told yet
	told   time.Time
}

type reachKey struct {
	log       string
	partition int
}

func newReach(s store.Retention) *reach {
	return &reach{store: s, newest: map[reachKey]time.Time{}}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range results {
		p := &ms[i].Position
		if results[i].Outcome.Settled() {
			r.raise(reachKey{p.Log, p.Partition}, p.Time)
		}
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

func (r *reach) raise(k reachKey, at time.Time) {
	if before, ok := r.newest[k]; !ok || at.After(before) {
		r.newest[k] = at
	}
}

func (r *reach) putBack(due []store.Reach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range due {
		r.raise(reachKey{d.Log, d.Partition}, d.Newest)
	}
}
