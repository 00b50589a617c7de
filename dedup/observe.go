package dedup

import (
	"context"
	"time"
)

// Observation is what became of messages that a guard was handed together.
type Observation struct {
	// Messages are those that were handed over. They belong to the consumer: an observer reads them
	// and keeps nothing of them.
	Messages []Message
	// Results are those of the first messages, as a [Processor] returns them: at most the last one is
	// not settled, and messages without one have had no effect.
	Results []Result
	// Took is how long the guard had them, handler and COMMIT included.
	Took time.Duration
}

// WithObserver calls a function with what became of messages, when that is known and before the
// consumer is told, so nothing is acknowledged that was not observed: for metrics and audits. A
// process that dies after a COMMIT may not have observed it; the message comes again, as a
// [Duplicate].
//
// It is called by whoever handles the messages, several at a time, and they wait for it. It sees what
// is handled and what is buried; a replay tells its own caller.
func WithObserver(f func(ctx context.Context, o Observation)) TxOption {
	return txOption(func(c *txConfig) { c.observer, c.observed = f, true })
}

func (g *TxGuard[TTx]) observe(ctx context.Context, began time.Time, ms []Message, results []Result) {
	if g.config.observer != nil && len(ms) > 0 {
		g.config.observer(ctx, Observation{Messages: ms, Results: results, Took: time.Since(began)})
	}
}
