package dedup

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// Fenced implements [Fencer]: whether the store keeps positions.
func (g *TxGuard[TTx]) Fenced() bool { return g.fences != nil }

// Applied implements [Fencer].
func (g *TxGuard[TTx]) Applied(ctx context.Context, log string, partition int) (store.Applied, error) {
	scope, err := g.scope(ctx)
	if err != nil {
		return store.Applied{}, err
	}
	at, err := g.fences.Applied(ctx, scope, log, partition)
	if err == nil {
		g.known.answered(log, partition, at)
	}
	return at, err
}

// RestartFence implements [Fencer].
func (g *TxGuard[TTx]) RestartFence(ctx context.Context, log string, partition int, expected store.Applied, offset int64) (store.Applied, error) {
	scope, err := g.scope(ctx)
	if err != nil {
		return store.Applied{}, err
	}
	at, err := g.fences.RestartFence(ctx, scope, log, partition, expected, offset)
	if err == nil {
		g.known.answered(log, partition, at)
	}
	return at, err
}

// note takes in what became of the messages.
func (g *TxGuard[TTx]) note(ctx context.Context, scope store.Scope, ms []Message, places []store.Place, results []Result) {
	if g.fences != nil {
		g.known.settled(places, results)
	}
	g.reach.note(ctx, scope, ms, results)
}
