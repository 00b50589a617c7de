package dedup

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// Counts implements [Counter]: whether the store counts attempts.
func (g *TxGuard[TTx]) Counts() bool { return g.attempts != nil }

// Spend implements [Counter].
func (g *TxGuard[TTx]) Spend(ctx context.Context, m Message) (int, error) {
	id, err := g.counted(ctx, m)
	if err != nil {
		return 0, err
	}
	return g.attempts.Spend(ctx, id.mark.Scope, id.mark.Key)
}

// Start implements [Counter].
func (g *TxGuard[TTx]) Start(ctx context.Context, m Message, starter string) (store.Tally, error) {
	id, err := g.counted(ctx, m)
	if err != nil {
		return store.Tally{}, err
	}
	return g.attempts.Start(ctx, id.mark.Scope, id.mark.Key, starter)
}

// Survive implements [Counter].
func (g *TxGuard[TTx]) Survive(ctx context.Context, m Message, starter string) error {
	id, err := g.counted(ctx, m)
	if err != nil {
		return err
	}
	return g.attempts.Survive(ctx, id.mark.Scope, id.mark.Key, starter)
}

// Forget implements [Counter].
func (g *TxGuard[TTx]) Forget(ctx context.Context, m Message) error {
	id, err := g.counted(ctx, m)
	if err != nil {
		return err
	}
	return g.attempts.Forget(ctx, id.mark.Scope, id.mark.Key)
}

func (g *TxGuard[TTx]) counted(ctx context.Context, m Message) (identified, error) {
	scope, err := g.scope(ctx)
	if err != nil {
		return identified{}, err
	}
	return g.identifyAnyhow(scope, &m)
}

// Enter implements [Counter].
func (g *TxGuard[TTx]) Enter(ctx context.Context, log string, partition int, owner string) (bool, error) {
	scope, err := g.scope(ctx)
	if err != nil {
		return false, err
	}
	return g.attempts.Enter(ctx, scope, log, partition, owner)
}

// Leave implements [Counter].
func (g *TxGuard[TTx]) Leave(ctx context.Context, log string, partition int, owner string) error {
	scope, err := g.scope(ctx)
	if err != nil {
		return err
	}
	return g.attempts.Leave(ctx, scope, log, partition, owner)
}
