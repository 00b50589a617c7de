package natssub

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

const (
	// maxStarts is how often a suspect may be begun. One that nobody has come back from each time is
	// buried before it runs once more.
	maxStarts = 3

	// minVanished is how many deliveries of a message have to vanish, at least, before it is buried
	// unseen where starts are not counted. A policy of one or two attempts must not bury what a
	// deployment or two gave back.
	minVanished = 5
)

// begin comes before a message runs, and tells whether it must not, because it has ended as many processes
// as deaths says: it would end this one as well, and go round for ever.
//
// The server's count of deliveries makes a suspect. It is no proof, as it grows with whatever keeps a message
// from its end. Where the processor counts, that a suspect begins is committed before, and whatever comes of it
// takes that back. So those starts are left that no process has come back from. Where it does not, the
// server's count is all there is.
func (r *run) begin(h *held) (deaths int, deadly, err error) {
	switch {
	case !h.suspect || h.cleared: // What has failed here has not ended the process: its attempts bound it.
		return 0, nil, nil
	case r.counter == nil && h.vanished < max(r.policy.MaxAttempts, minVanished):
		return 0, nil, nil
	case r.counter == nil:
		return h.vanished, fmt.Errorf("delivered %d times, of which %d had no result: the process may have ended over it each time",
			r.hand.deliveries(h), h.vanished), nil
	}
	starts, err := r.start(h)
	if err != nil || starts <= maxStarts {
		return 0, nil, err
	}
	r.survive(h) // it does not run
	return starts - 1, fmt.Errorf("the process may have ended over it %d times: it was begun %d times and nobody came back from it",
		starts-1, starts-1), nil
}

// start counts that a suspect begins. What others have counted of its attempts comes in here.
func (r *run) start(h *held) (starts int, err error) {
	ctx, cancel := context.WithTimeout(r.handling, countLimit)
	defer cancel()
	tally, err := r.counter.Start(ctx, h.message, r.starter)
	if dedup.IsPermanent(err) {
		return 0, nil // It cannot be told from others, and so no handler gets it either.
	}
	h.begun, h.counted = true, true // even on an error: it may have been committed
	if err != nil {
		return 0, err
	}
	h.spent = max(h.spent, tally.Spent)
	return tally.Starts, nil
}

// notBegun treats a start that cannot be counted as an outage: the message must not run.
func (r *run) notBegun(batch []*held, err error) []*held {
	batch[0].streak++
	result := dedup.Result{Outcome: dedup.Failed, Fault: store.FaultOutage, Err: errors.Join(errors.New("its start cannot be counted"), err)}
	return r.retry(batch, result, r.policy.Delay(batch[0].streak), true)
}

// survive takes the start of a message back that has an end, also one that was cancelled. Where that
// fails, its next start in this process adds nothing.
func (r *run) survive(h *held) {
	if !h.begun {
		return
	}
	ctx, cancel := context.WithTimeout(r.base, min(countLimit, r.rollbackLimit()/2))
	defer cancel()
	if err := r.counter.Survive(ctx, h.message, r.starter); err != nil {
		r.log.Info("the start of a message that has not ended the process cannot be taken back yet", "sequence", h.place.sequence, "error", err)
		return
	}
	h.begun = false
}
