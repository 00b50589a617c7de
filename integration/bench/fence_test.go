package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// BenchmarkFence measures what it costs to remember a position for each partition instead of a key
// for each message: batches of 500, one statement for the effects of each, and a partition of its
// own for each connection.
func BenchmarkFence(b *testing.B) {
	for _, conns := range []int{1, 4} {
		b.Run(fmt.Sprintf("N=500,c=%d", conns), func(b *testing.B) { benchmarkFence(b, 500, conns) })
	}
}

func benchmarkFence(b *testing.B, size, conns int) {
	pool := database(b, conns)
	s, err := pgstore.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	guard := func(consumer string, marks store.Marks[pgx.Tx]) *dedup.TxGuard[pgx.Tx] {
		g, err := dedup.NewTxBatch(marks, consumer, dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, ms []dedup.Message) error {
			ids, bodies := columns(ms)
			_, err := tx.Exec(ctx, insertEffects, ids, bodies)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	fence, marks, both := guard("fence", s.Fenced()), guard("marks", s), guard("both", s.FencedMarks())
	queued, err := dedup.NewTxBatch(s.Fenced().Queued(), "queued", dedup.FromCoordinates(), dedup.Forever, func(_ context.Context, q *pgx.Batch, ms []dedup.Message) error {
		ids, bodies := columns(ms)
		q.Queue(insertEffects, ids, bodies)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}

	each := 40_000 / conns / size * size
	lanes := func(work func(context.Context, []dedup.Message)) func() (int, time.Duration) {
		return func() (int, time.Duration) { return inPartitions(b, pool, conns, each, work) }
	}
	c := newContest(b)
	c.add("raw", lanes(func(ctx context.Context, ms []dedup.Message) { rawBatches(ctx, b, pool, ms, size) }))
	c.add("rawtx", lanes(func(ctx context.Context, ms []dedup.Message) { rawTransactions(ctx, b, pool, ms, size) }))
	c.add("handfence", lanes(func(ctx context.Context, ms []dedup.Message) { handFences(ctx, b, pool, ms, size) }))
	c.add("fence", lanes(func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, fence, ms, size) }))
	c.add("qfence", lanes(func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, queued, ms, size) }))
	c.add("marks", lanes(func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, marks, ms, size) }))
	c.add("both", lanes(func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, both, ms, size) }))
	c.run()
	c.ratio("G7", "qfence", "raw")
	c.ratio("G7", "handfence", "raw")
	c.ratio("G7", "qfence", "handfence")
	c.ratio("G7", "fence", "raw")
	c.ratio("G7", "fence", "rawtx")
	c.ratio("G7", "fence", "marks")
	c.ratio("both", "both", "marks")
}

// inPartitions is inLanes where a lane reads one partition in its order.
func inPartitions(b *testing.B, pool *pgxpool.Pool, lanes, each int, work func(context.Context, []dedup.Message)) (int, time.Duration) {
	clear(b, pool)
	shares := make([][]dedup.Message, lanes)
	for partition := range shares {
		shares[partition] = messages(each)
		for i := range shares[partition] {
			shares[partition][i].Position.Partition = partition
		}
	}
	var wg sync.WaitGroup
	start := time.Now()
	for _, ms := range shares {
		wg.Go(func() { work(context.Background(), ms) })
	}
	wg.Wait()
	took := time.Since(start)
	countEffects(b, pool, lanes*each)
	return lanes * each, took
}

// handFences keeps the position by hand, in as few round trips as qfence: what is left of raw when
// nothing but the server's work for the position and the second round trip are added.
func handFences(ctx context.Context, b *testing.B, pool *pgxpool.Pool, ms []dedup.Message, size int) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Release()
	for len(ms) > 0 {
		n := min(size, len(ms))
		last := &ms[n-1].Position
		var before int64
		begin, end := &pgx.Batch{}, &pgx.Batch{}
		begin.Queue("begin")
		begin.Queue(`insert into semel.fences as f (scope, log, partition, position, previous, epoch) values (-1, 'by hand', $1, $2, -1, 0)
			on conflict (scope, log, partition) do update set position = excluded.position, previous = f.position
			where f.position < excluded.position returning previous`, int32(last.Partition), last.Offset).QueryRow(func(row pgx.Row) error { return row.Scan(&before) })
		ids, bodies := columns(ms[:n])
		end.Queue(insertEffects, ids, bodies)
		end.Queue("commit")
		if err := errors.Join(conn.SendBatch(ctx, begin).Close(), conn.SendBatch(ctx, end).Close()); err != nil {
			b.Error(err)
			return
		}
		ms = ms[n:]
	}
}

// rawTransactions is rawBatches with a BEGIN and a COMMIT of their own, which is what a handler
// with a second statement needs.
func rawTransactions(ctx context.Context, b *testing.B, pool *pgxpool.Pool, ms []dedup.Message, size int) {
	for len(ms) > 0 {
		n := min(size, len(ms))
		ids, bodies := columns(ms[:n])
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertEffects, ids, bodies)
			return err
		})
		if err != nil {
			b.Error(err)
			return
		}
		ms = ms[n:]
	}
}
