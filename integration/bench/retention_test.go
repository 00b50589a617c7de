package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

const (
	retentionTime = 2 * time.Second
	dropEvery     = 500 * time.Millisecond
	drops         = int(retentionTime / dropEvery)
)

func liveGuard(b *testing.B, s *pgstore.Store, key dedup.KeyFunc) dedup.BatchProcessor {
	b.Helper()
	g, err := dedup.NewTxBatch(s.Queued(), "live", key, dedup.Forever, func(_ context.Context, q *pgx.Batch, ms []dedup.Message) error {
		ids, bodies := columns(ms)
		q.Queue(insertEffects, ids, bodies)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// consume handles messages of now in batches of 100 on two connections for the time of a
// measurement, with a purger beside it where there is one.
func consume(b *testing.B, pool *pgxpool.Pool, g dedup.BatchProcessor, beside func(ctx context.Context)) (int, time.Duration) {
	mustExec(b, pool, "truncate effects")
	runtime.GC()
	ctx, stop := context.WithCancel(context.Background())
	var workers, purger sync.WaitGroup
	if beside != nil {
		purger.Go(func() { beside(ctx) })
	}
	var done atomic.Int64
	start := time.Now()
	for range 2 {
		workers.Go(func() {
			for time.Since(start) < retentionTime {
				ms := messages(100)
				for i := range ms {
					ms[i].Position.Time = time.Now()
				}
				check(b, g.ProcessBatch(context.Background(), ms), len(ms))
				done.Add(int64(len(ms)))
			}
		})
	}
	workers.Wait()
	took := time.Since(start)
	stop()
	purger.Wait()
	return int(done.Load()), took
}

// BenchmarkDropPartitions measures consumers while a partition with a twentieth of the existing
// rows (a million of twenty) is removed every half second, beside consumers alone.
func BenchmarkDropPartitions(b *testing.B) {
	pool, rows := database(b, 4), existingRows(b)
	const width = 2 * time.Hour
	s := withSchema(b, pool, "parts", pgstore.WithPartitions(width, 14*24*time.Hour))
	ctx := context.Background()
	const keep = time.Hour
	old, err := s.Scope(ctx, "old", keep)
	if err != nil {
		b.Fatal(err)
	}
	p, err := pgstore.NewPurger(s)
	if err != nil {
		b.Fatal(err)
	}
	g := liveGuard(b, s, dedup.FromCoordinates())
	var dropped, emptied int
	c := newContest(b)
	c.add("alone", func() (int, time.Duration) { return consume(b, pool, g, nil) })
	c.add("drop", func() (int, time.Duration) {
		ends := fillPartitions(b, pool, old, rows/20)
		return consume(b, pool, g, func(ctx context.Context) {
			for _, end := range ends {
				if err := s.Reached(ctx, old, []store.Reach{{Log: "old", Newest: end.Add(keep)}}); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				done, err := p.Purge(ctx)
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				dropped, emptied = dropped+len(done.Dropped), emptied+len(done.Emptied)
				select {
				case <-ctx.Done():
				case <-time.After(dropEvery):
				}
			}
		})
	})
	c.run()
	c.ratio("G12", "drop", "alone")
	b.Logf("%d partitions of %d rows were emptied and %d dropped", emptied, rows/20, dropped)
}

// fillPartitions fills the oldest partitions, and returns where each of them ends. They are left as old
// rows are found: on disk and vacuumed, so that nothing but their removal is at work afterwards.
func fillPartitions(b *testing.B, pool *pgxpool.Pool, scope store.Scope, each int) []time.Time {
	b.Helper()
	rows, err := pool.Query(context.Background(), "select from_ms, to_ms from parts.mark_partitions where to_ms < extract(epoch from now()) * 1000 - 7200000 order by from_ms limit $1", drops)
	if err != nil {
		b.Fatal(err)
	}
	type span struct{ From, To int64 }
	spans, err := pgx.CollectRows(rows, pgx.RowToStructByPos[span])
	if err != nil {
		b.Fatal(err)
	}
	if len(spans) < drops {
		b.Fatal("no old partitions are left: run fewer iterations")
	}
	var ends []time.Time
	for _, p := range spans {
		step := max(1, (p.To-p.From)/int64(each))
		mustExec(b, pool, fmt.Sprintf("insert into parts.marks_timed (scope, key) select %d, %s from generate_series(1, %d) i",
			scope, keySQL(fmt.Sprintf("%d + (i * %d) %% %d", p.From, step, p.To-p.From)), each))
		ends = append(ends, time.UnixMilli(p.To))
	}
	mustExec(b, pool, "vacuum (analyze) parts.marks_timed")
	mustExec(b, pool, "checkpoint")
	return ends
}

// BenchmarkDelete measures consumers while old marks of the same table are deleted row by row, at
// the purger's rate and as fast as it goes, beside consumers alone.
func BenchmarkDelete(b *testing.B) {
	pool, rows := database(b, 4), existingRows(b)
	s, err := pgstore.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	old, err := s.Scope(ctx, "old", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	g := liveGuard(b, s, func(m dedup.Message) (dedup.Key, error) {
		return dedup.FromHeader("id")(dedup.Message{Headers: []dedup.Header{{Key: "id", Value: fmt.Append(nil, m.Position.Offset)}}})
	})
	fill := func(n int) {
		mustExec(b, pool, fmt.Sprintf("insert into semel.marks_plain (scope, key, at) select %d, gen_random_uuid(), now() - interval '3 days' - i * interval '1 millisecond' from generate_series(1, %d) i", old, n))
	}
	fill(rows)
	mustExec(b, pool, "vacuum analyze semel.marks_plain")
	if err := s.Reached(ctx, old, []store.Reach{{Log: "old", Newest: time.Now()}}); err != nil {
		b.Fatal(err)
	}
	var deleted [2]int64
	deleting := func(which, least int, opts ...pgstore.PurgeOption) func() (int, time.Duration) {
		p, err := pgstore.NewPurger(s, opts...)
		if err != nil {
			b.Fatal(err)
		}
		return func() (int, time.Duration) {
			var left int
			if err := pool.QueryRow(ctx, "select count(*) from (select from semel.marks_plain where scope = $1 limit $2) l", int32(old), least).Scan(&left); err != nil {
				b.Fatal(err)
			}
			if left < least {
				fill(least - left)
			}
			return consume(b, pool, g, func(ctx context.Context) {
				done, err := p.Purge(ctx)
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				deleted[which] += done.Rows()
			})
		}
	}
	c := newContest(b)
	c.add("alone", func() (int, time.Duration) { return consume(b, pool, g, nil) })
	c.add("throttled", deleting(0, 50_000))
	if rows >= 1_000_000 { // fewer would be gone before the time is over
		c.add("flatout", deleting(1, 800_000, pgstore.WithDeleteRate(1_000_000_000, 5000)))
	}
	c.run()
	c.ratio("G13", "throttled", "alone")
	if rows >= 1_000_000 {
		c.ratio("flatout", "flatout", "alone")
	}
	b.Logf("%d rows were deleted at the rate and %d flat out", deleted[0], deleted[1])
}
