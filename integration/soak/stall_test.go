//go:build unix

package soak

import (
	"context"
	"time"
)

// stallLooks is after how many looks without any progress, five seconds apart, consumers are called stalled.
const stallLooks = 5

// watch says when the consumers of a group have stalled. On kfake it then makes all members join again: after its connections were cut
// in the middle of a rebalance, a member that no process answered for was seen to keep partitions far beyond its session
// timeout. On every other broker nothing is mended, and a stall ends the run at its limit.
func (w *world) watch(ctx context.Context, g *group) {
	last, still := 0, 0
	for pause(ctx, 5*time.Second) {
		sum, err := g.ledger.look()
		if still++; err != nil || sum.Deliveries != last {
			last, still = sum.Deliveries, 0
		}
		if still < stallLooks {
			continue
		}
		still = 0
		if lag, err := w.broker.lag(ctx, g); err != nil || lag == 0 {
			continue
		}
		w.tally.add("stalls")
		w.t.Logf("%6.1fs %s stalled; the broker says: %s", time.Since(w.began).Seconds(), g.name, w.broker.describe(ctx, g))
		if k, ok := w.broker.(*kafkaBroker); ok && k.server.Kfake() != nil {
			_ = k.leave(ctx, g, everybody) // the next look tells
		}
	}
}
