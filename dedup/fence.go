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
	return g.fences.Applied(ctx, scope, log, partition)
}

// RestartFence implements [Fencer].
func (g *TxGuard[TTx]) RestartFence(ctx context.Context, log string, partition int, expected store.Applied, offset int64) (store.Applied, error) {
	scope, err := g.scope(ctx)
	if err != nil {
		return store.Applied{}, err
	}
	return g.fences.RestartFence(ctx, scope, log, partition, expected, offset)
}
