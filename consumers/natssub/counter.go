package natssub

import (
	"context"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// countLimit bounds what is written about attempts; they are also counted in memory.
const countLimit = 2 * time.Second

// counter returns the processor's count of attempts, or nil where it has none.
func counter(p dedup.Processor) dedup.Counter {
	if c, ok := p.(dedup.Counter); ok && c.Counts() {
		return c
	}
	return nil
}

// spend uses up an attempt of the message. Where the processor counts attempts, those of earlier
// processes come in here. Where its count cannot be had, that of this process goes on: the
// message gets an attempt too many rather than one too few.
func (r *run) spend(h *held) {
	h.spent++
	if r.counter == nil {
		return
	}
	h.counted, h.cleared = true, true // even on an error: it may have been committed
	ctx, cancel := context.WithTimeout(r.handling, countLimit)
	defer cancel()
	n, err := r.counter.Spend(ctx, h.message)
	if err != nil {
		r.log.Warn("attempt counted in this process only", "sequence", h.place.sequence, "attempts", h.spent, "error", err)
		return
	}
	h.spent, h.begun = max(h.spent, n), false
}

// forgetAttempts ends the count of a message that is settled. One that was delivered before may
// have been counted by another process. A count that is left behind harms nobody: it belongs to
// a message that is done.
func (r *run) forgetAttempts(h *held) {
	if r.counter == nil || !h.counted && r.hand.deliveries(h) <= 1 {
		return
	}
	ctx, cancel := context.WithTimeout(r.handling, countLimit)
	defer cancel()
	if err := r.counter.Forget(ctx, h.message); err != nil {
		r.log.Debug("count of attempts left behind", "sequence", h.place.sequence, "error", err)
	}
}
