//go:build unix

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// What the benchmarks of both brokers have in common.

const (
	batchSize = 500
	linger    = 10 * time.Millisecond
	keep      = 30 * 24 * time.Hour
)

// payload returns a message of 1 kB.
func payload(n int) []byte {
	body := make([]byte, 1024)
	for i := range body {
		body[i] = 'a' + byte((n*7+i*i)%26)
	}
	return body
}

// effectID is unique over the partitions of a log.
func effectID(partition int, offset int64) int64 { return int64(partition)<<40 | offset }

// effectBody makes the effect of a message a row of about 100 bytes, as in the other benchmarks.
func effectBody(body []byte) string { return string(body[:100]) }

func effectColumns(ms []dedup.Message) (ids []int64, bodies []string) {
	ids, bodies = make([]int64, len(ms)), make([]string, len(ms))
	for i := range ms {
		ids[i], bodies[i] = effectID(ms[i].Position.Partition, ms[i].Position.Offset), effectBody(ms[i].Body)
	}
	return ids, bodies
}

// guards are those with PostgreSQL behind them.
type guards struct {
	each, batch *dedup.TxGuard[pgx.Tx]
	queued      *dedup.TxGuard[*pgx.Batch]
	// fence is another one for each run: one that lives on notices that its positions were cleared away.
	fence func() *dedup.TxGuard[pgx.Tx]
}

func newGuards(b *testing.B, pool *pgxpool.Pool) guards {
	s, err := pgstore.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	batch := func(ctx context.Context, tx pgx.Tx, ms []dedup.Message) error {
		ids, bodies := effectColumns(ms)
		_, err := tx.Exec(ctx, insertEffects, ids, bodies)
		return err
	}
	return guards{
		each: must(dedup.NewTx(s, "each", dedup.FromCoordinates(), keep, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			_, err := tx.Exec(ctx, insertEffect, effectID(m.Position.Partition, m.Position.Offset), effectBody(m.Body))
			return err
		}))(b),
		batch: must(dedup.NewTxBatch(s, "batch", dedup.FromCoordinates(), keep, batch))(b),
		fence: func() *dedup.TxGuard[pgx.Tx] {
			return must(dedup.NewTxBatch(s.Fenced(), "fence", dedup.FromCoordinates(), keep, batch))(b)
		},
		queued: must(dedup.NewTxBatch(s.Queued(), "queued", dedup.FromCoordinates(), keep, func(_ context.Context, q *pgx.Batch, ms []dedup.Message) error {
			ids, bodies := effectColumns(ms)
			q.Queue(insertEffects, ids, bodies)
			return nil
		}))(b),
	}
}

// nullGuards have a store and a handler behind them that do nothing.
type nullGuards struct{ each, batch, fence *dedup.TxGuard[nothing] }

func newNullGuards(b *testing.B) nullGuards {
	batch := func(s store.Marks[nothing]) *dedup.TxGuard[nothing] {
		return must(dedup.NewTxBatch(s, "batch", dedup.FromCoordinates(), keep, func(context.Context, nothing, []dedup.Message) error { return nil }))(b)
	}
	return nullGuards{
		each:  must(dedup.NewTx(nullMarks{}, "each", dedup.FromCoordinates(), keep, func(context.Context, nothing, dedup.Message) error { return nil }))(b),
		batch: batch(nullMarks{}), fence: batch(nullFences{}),
	}
}

// clearAll is clear with the positions.
func clearAll(b *testing.B, pool *pgxpool.Pool) {
	mustExec(b, pool, "truncate semel.fences")
	clear(b, pool)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
