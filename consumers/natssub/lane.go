package natssub

import (
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

const (
	// maxChain and chainTime bound how many messages a lane takes at once: a chain saves
	// round trips where messages are quick, and would make them wait behind each other where
	// they are slow.
	maxChain  = 16
	chainTime = 50 * time.Millisecond

	// maxOutagePause bounds the pauses while the store cannot be reached. They hold up all
	// messages, not one, so they do not grow to the policy's longest delay.
	maxOutagePause = 5 * time.Second
)

// lane takes messages and sees each of them to its end.
func (r *run) lane() {
	regular := false
	defer func() {
		if !regular { // Or its messages would be kept alive by heartbeats for ever.
			r.end(errors.New("a handler ended the goroutine that called it, as runtime.Goexit and testing's FailNow do"))
		}
	}()
	fill, linger := 1, time.Duration(0)
	if r.batched {
		fill, linger = min(r.batch, r.terms.hand), r.linger
	}
	for {
		batch := r.hand.take(fill, linger, r.share)
		if batch == nil {
			regular = true
			return
		}
		keys := r.hand.keysOf(batch)
		r.handle(batch)
		if batch[0].suspect {
			r.hand.tried()
		}
		r.hand.leave(keys)
	}
}

// share is how many of the waiting messages one lane takes.
func (r *run) share(waiting int) int {
	if r.batched {
		return r.batch
	}
	if _, ok := r.processor.(dedup.EachProcessor); !ok {
		return 1
	}
	pace := r.pace.Load()
	if pace == 0 {
		return 1
	}
	return int(min(int64(waiting+r.lanes-1)/int64(r.lanes), int64(chainTime)/pace, maxChain))
}

// handle goes on until every message of the batch is settled or given back.
func (r *run) handle(batch []*held) {
	for len(batch) > 0 && !r.stopping() && !r.Paused() {
		switch deaths, deadly, err := r.begin(batch[0]); {
		case err != nil:
			batch = r.notBegun(batch, err)
		case deadly != nil:
			batch = r.bury(batch, deaths, deadly)
		default:
			batch = r.settle(batch, r.process(batch))
		}
	}
	r.giveBackAll(batch)
}

// process hands the batch to the processor and measures its pace.
func (r *run) process(batch []*held) []dedup.Result {
	defer r.busy.leave(r.busy.enter(len(batch)))
	begun := time.Now()
	results := r.results(batch)
	if n := len(results); n > 0 {
		took := int64(time.Since(begun)) / int64(n)
		if before := r.pace.Load(); before > 0 {
			took = (7*before + took) / 8
		}
		r.pace.Store(max(took, 1))
	}
	return results
}

func (r *run) results(batch []*held) []dedup.Result {
	ms := make([]dedup.Message, len(batch))
	for i, h := range batch {
		ms[i] = h.message
		ms[i].Attempt = h.spent + 1
	}
	if r.batched {
		return r.processor.(dedup.BatchProcessor).ProcessBatch(r.handling, ms)
	}
	if each, ok := r.processor.(dedup.EachProcessor); ok {
		return each.ProcessEach(r.handling, ms)
	}
	return []dedup.Result{r.processor.Process(r.handling, ms[0])}
}

// settle acts upon the results, of which at most the last is not settled, and returns the
// messages that are still to be processed.
func (r *run) settle(batch []*held, results []dedup.Result) []*held {
	if len(results) == 0 || len(results) > len(batch) {
		r.end(fmt.Errorf("the processor returned %d results for %d messages", len(results), len(batch)))
		return batch
	}
	done := 0
	for done < len(results) && results[done].Outcome.Settled() {
		if h := batch[done]; results[done].Outcome == dedup.Duplicate {
			r.log.Debug("duplicate", "sequence", h.place.sequence, "deliveries", r.hand.deliveries(h))
		}
		done++
	}
	r.acknowledge(batch[:done]...)
	if done < len(results) {
		return r.decide(batch[done:], results[done])
	}
	return batch[done:]
}

// decide does what the policy says about the batch's first message, which is not settled, and
// returns the messages that are still to be processed.
func (r *run) decide(batch []*held, result dedup.Result) []*held {
	h := batch[0]
	h.streak++
	d := r.policy.Decide(result, h.spent, h.streak)
	switch {
	case d.Spent && d.Action == consumers.Retry:
		if r.spend(h); h.spent >= r.policy.MaxAttempts {
			d.Action = consumers.Bury
		}
	case d.Spent:
		h.spent++ // It is the last one, whatever others have counted.
	}
	r.survive(h)
	switch d.Action {
	case consumers.Retry:
		return r.retry(batch, result, d.After, !d.Spent)
	case consumers.Bury:
		return r.bury(batch, h.spent, result.Err)
	default:
		return r.giveUp(batch, result)
	}
}

// giveUp ends the run, unless the message only failed because the run ends already.
func (r *run) giveUp(batch []*held, result dedup.Result) []*held {
	if result.Fault != store.FaultCanceled || r.handling.Err() == nil {
		r.end(fmt.Errorf("message %d: %w", batch[0].place.sequence, result.Err))
	}
	return batch
}

// retry keeps the first message, where that is asked for or giving it back would do harm, and otherwise
// gives it back to be delivered again after the delay.
func (r *run) retry(batch []*held, result dedup.Result, after time.Duration, keep bool) []*held {
	h := batch[0]
	outage := result.Fault == store.FaultOutage
	last := r.terms.maxDeliver > 0 && r.hand.deliveries(h) >= r.terms.maxDeliver
	if outage {
		after = min(after, maxOutagePause)
	}
	r.log.Warn("message not settled; trying again", "sequence", h.place.sequence, "outcome", result.Outcome.String(),
		"fault", result.Fault.String(), "attempts", h.spent, "after", after, "error", result.Err)
	switch {
	case r.ordered, outage:
		// In an outage the next message would fare no better.
		r.wait(after)
		return batch
	case h.key != "":
		return r.holdBack(batch, after)
	case keep, last:
		// A message that has not failed by its own fault may be put off for long. Given back each time, it
		// would go round the processes, and each would take the deliveries to the others for such as ended
		// over it. The server's last delivery comes but once.
		if !r.hand.rest(h, after) {
			return batch // which the end or the pause gives back
		}
		return batch[1:]
	default:
		r.giveBack(h, after)
		return batch[1:]
	}
}
