package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// FencedQueued is the store that keeps positions for handlers that queue their statements: see
// [Fenced] and [Queued].
type FencedQueued struct {
	Queued
	fence Fenced
}

var (
	_ store.Marks[*pgx.Batch]   = FencedQueued{}
	_ store.Burier[*pgx.Batch]  = FencedQueued{}
	_ store.Reviver[*pgx.Batch] = FencedQueued{}
	_ store.Fences              = FencedQueued{}
)

// Queued returns the view for handlers that queue.
func (f Fenced) Queued() FencedQueued { return FencedQueued{f.Store.Queued(), f} }

// Begin implements [store.Marks]. Every mark must have a place.
func (f FencedQueued) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*pgx.Batch], []store.Status, error) {
	mode := f.fence.mode
	if err := mode.check(marks); err != nil {
		return nil, nil, err
	}
	u, statuses, err := f.beginIn(ctx, mode, marks)
	if err != nil {
		return nil, nil, err
	}
	return &queuedUnit{u, &pgx.Batch{}}, statuses, nil
}

// MarkTx implements [store.TxMarker] by position, as Begin does.
func (f FencedQueued) MarkTx(ctx context.Context, tx pgx.Tx, marks []store.Mark) ([]store.Status, error) {
	return f.fence.MarkTx(ctx, tx, marks)
}

// Revive implements [store.Reviver].
func (f FencedQueued) Revive(ctx context.Context, id int64) (store.Unit[*pgx.Batch], store.DeadLetter, error) {
	u, letter, err := f.revive(ctx, id)
	if err != nil {
		return nil, store.DeadLetter{}, err
	}
	u.mode = f.fence.mode
	return &queuedUnit{u, &pgx.Batch{}}, letter, nil
}

// Keyless implements [store.Fences].
func (f FencedQueued) Keyless() bool { return f.fence.Keyless() }

// Applied implements [store.Fences].
func (f FencedQueued) Applied(ctx context.Context, scope store.Scope, log string, partition int) (store.Applied, error) {
	return f.fence.Applied(ctx, scope, log, partition)
}

// RestartFence implements [store.Fences].
func (f FencedQueued) RestartFence(ctx context.Context, scope store.Scope, log string, partition int, expected store.Applied, offset int64) (store.Applied, error) {
	return f.fence.RestartFence(ctx, scope, log, partition, expected, offset)
}
