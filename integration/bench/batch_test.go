package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/pgstore"
)

const insertEffects = "insert into effects (id, body) select * from unnest($1::bigint[], $2::text[])"

// BenchmarkBatch measures many messages in one transaction: a handler of the whole batch,
// one that queues a statement for each message and one that runs a statement for each,
// beside the effects alone and the single statement that somebody would write by hand
// for deduplication and effect together, with the same kind of key.
func BenchmarkBatch(b *testing.B) {
	for _, shape := range []struct{ size, conns int }{{100, 1}, {500, 1}, {100, 4}, {500, 4}} {
		b.Run(fmt.Sprintf("N=%d,c=%d", shape.size, shape.conns), func(b *testing.B) { benchmarkBatch(b, shape.size, shape.conns) })
	}
}

func benchmarkBatch(b *testing.B, size, conns int) {
	pool := database(b, conns)
	mustExec(b, pool, "create table naive_keys (scope bigint not null, key uuid not null, primary key (scope, key))")
	s, err := pgstore.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	together, err := dedup.NewTxBatch(s, "together", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, ms []dedup.Message) error {
		ids, bodies := columns(ms)
		_, err := tx.Exec(ctx, insertEffects, ids, bodies)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	queuedTogether, err := dedup.NewTxBatch(s.Queued(), "together", dedup.FromCoordinates(), dedup.Forever, func(_ context.Context, q *pgx.Batch, ms []dedup.Message) error {
		ids, bodies := columns(ms)
		q.Queue(insertEffects, ids, bodies)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	queued, err := dedup.NewTx(s.Queued(), "queued", dedup.FromCoordinates(), dedup.Forever, func(_ context.Context, q *pgx.Batch, m dedup.Message) error {
		q.Queue(insertEffect, m.Position.Offset, string(m.Body))
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	each, err := dedup.NewTx(s, "each", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, insertEffect, m.Position.Offset, string(m.Body))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}

	fast, slow := 40_000/conns/size*size, 6_000/conns/size*size
	lanes := func(each int, work func(context.Context, []dedup.Message)) func() (int, time.Duration) {
		return func() (int, time.Duration) {
			mustExec(b, pool, "truncate naive_keys")
			return inLanes(b, pool, conns, each, work)
		}
	}
	c := newContest(b)
	c.add("naive4", lanes(2000/conns, func(ctx context.Context, ms []dedup.Message) { naive(ctx, b, pool, ms, true) }))
	c.add("raw", lanes(fast, func(ctx context.Context, ms []dedup.Message) { rawBatches(ctx, b, pool, ms, size) }))
	c.add("onecte", lanes(fast, func(ctx context.Context, ms []dedup.Message) { cteBatches(ctx, b, pool, ms, size) }))
	c.add("batch", lanes(fast, func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, together, ms, size) }))
	c.add("qbatch", lanes(fast, func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, queuedTogether, ms, size) }))
	c.add("queued", lanes(fast, func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, queued, ms, size) }))
	c.add("each", lanes(slow, func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, each, ms, size) }))
	c.run()
	c.ratio("G4", "qbatch", "onecte")
	c.ratio("G4", "batch", "onecte")
	c.ratio("G5", "qbatch", "naive4")
	c.ratio("G6", "qbatch", "raw")
	c.ratio("G6", "batch", "raw")
	c.ratio("G8", "queued", "qbatch")
	c.ratio("each", "each", "naive4")
}

func batchesIn(ctx context.Context, b *testing.B, g dedup.BatchProcessor, ms []dedup.Message, size int) {
	for len(ms) > 0 {
		n := min(size, len(ms))
		check(b, g.ProcessBatch(ctx, ms[:n]), n)
		ms = ms[n:]
	}
}

func rawBatches(ctx context.Context, b *testing.B, pool *pgxpool.Pool, ms []dedup.Message, size int) {
	for len(ms) > 0 {
		n := min(size, len(ms))
		ids, bodies := columns(ms[:n])
		if _, err := pool.Exec(ctx, insertEffects, ids, bodies); err != nil {
			b.Error(err)
			return
		}
		ms = ms[n:]
	}
}

func cteBatches(ctx context.Context, b *testing.B, pool *pgxpool.Pool, ms []dedup.Message, size int) {
	for len(ms) > 0 {
		n := min(size, len(ms))
		ids, bodies := columns(ms[:n])
		keys := make(pgtype.FlatArray[pgtype.UUID], n)
		for i, m := range ms[:n] {
			k, err := dedup.FromCoordinates()(m)
			if err != nil {
				b.Error(err)
				return
			}
			keys[i] = pgtype.UUID{Bytes: k.Stored().ID, Valid: true}
		}
		_, err := pool.Exec(ctx, `with incoming as (select * from unnest($1::uuid[], $2::bigint[], $3::text[]) as i (key, id, body)),
			fresh as (insert into naive_keys (scope, key) select 1, key from incoming on conflict do nothing returning key)
			insert into effects (id, body) select id, body from incoming join fresh using (key)`, keys, ids, bodies)
		if err != nil {
			b.Error(err)
			return
		}
		ms = ms[n:]
	}
}

func columns(ms []dedup.Message) (ids []int64, bodies []string) {
	ids, bodies = make([]int64, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		ids[i], bodies[i] = m.Position.Offset, string(m.Body)
	}
	return ids, bodies
}
