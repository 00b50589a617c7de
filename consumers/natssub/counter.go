package natssub

import "github.com/semel-dev/semel/dedup"

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
	h.counted = true // even on an error: it may have been committed
	n, err := r.counter.Spend(r.handling, h.message)
	if err != nil {
		r.log.Warn("attempt counted in this process only", "sequence", h.place.sequence, "attempts", h.spent, "error", err)
		return
	}
	h.spent = max(h.spent, n)
}

// forgetAttempts ends the count of a message that is settled. One that was delivered before may
// have been counted by another process. A count that is left behind harms nobody: it belongs to
// a message that is done.
func (r *run) forgetAttempts(h *held) {
	if r.counter == nil || !h.counted && r.hand.deliveries(h) <= 1 {
		return
	}
	if err := r.counter.Forget(r.handling, h.message); err != nil {
		r.log.Debug("count of attempts left behind", "sequence", h.place.sequence, "error", err)
	}
}
