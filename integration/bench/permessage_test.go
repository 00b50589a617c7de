package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/pgstore"
)

const insertEffect = "insert into effects (id, body) values ($1, $2)"

// BenchmarkPerMessage measures one transaction per message with a handler of one statement,
// at the rate of a lane that sees some messages ahead: the guard against the loop that
// people write by hand (BEGIN, INSERT … ON CONFLICT DO NOTHING, effect, COMMIT) and
// against the same loop without any deduplication.
func BenchmarkPerMessage(b *testing.B) {
	for _, conns := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("c=%d", conns), func(b *testing.B) {
			pool := database(b, conns)
			each := 2500
			if conns > 1 {
				each = 10_000 / conns
			}
			s, err := pgstore.New(pool)
			if err != nil {
				b.Fatal(err)
			}
			guard, err := dedup.NewTx(s, "bench", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
				_, err := tx.Exec(ctx, insertEffect, m.Position.Offset, string(m.Body))
				return err
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
			lanes := func(work func(ctx context.Context, ms []dedup.Message)) func() (int, time.Duration) {
				return func() (int, time.Duration) { return inLanes(b, pool, conns, each, work) }
			}
			c := newContest(b)
			c.add("naive4", lanes(func(ctx context.Context, ms []dedup.Message) { naive(ctx, b, pool, ms, true) }))
			c.add("nodedup", lanes(func(ctx context.Context, ms []dedup.Message) { naive(ctx, b, pool, ms, false) }))
			c.add("guard", lanes(func(ctx context.Context, ms []dedup.Message) { eachIn(ctx, b, guard, ms) }))
			c.add("single", lanes(func(ctx context.Context, ms []dedup.Message) { oneByOne(ctx, b, guard, ms) }))
			c.add("queued", lanes(func(ctx context.Context, ms []dedup.Message) { eachIn(ctx, b, queued, ms) }))
			c.run()
			c.ratio("G1", "guard", "naive4")
			c.ratio("G2", "guard", "nodedup")
			c.ratio("single", "single", "naive4")
			c.ratio("G3", "queued", "naive4")
		})
	}
}

// inLanes shares messages out over goroutines and waits for them.
func inLanes(b *testing.B, pool *pgxpool.Pool, lanes, each int, work func(context.Context, []dedup.Message)) (int, time.Duration) {
	clear(b, pool)
	shares := make([][]dedup.Message, lanes)
	for i := range shares {
		shares[i] = messages(each)
	}
	var wg sync.WaitGroup
	start := time.Now()
	for _, ms := range shares {
		wg.Go(func() { work(context.Background(), ms) })
	}
	wg.Wait()
	return lanes * each, time.Since(start)
}

// naive is the four-trip loop, or the three-trip one without the dedup row.
func naive(ctx context.Context, b *testing.B, pool *pgxpool.Pool, ms []dedup.Message, withDedup bool) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Release()
	for _, m := range ms {
		tx, err := conn.Begin(ctx)
		if err == nil && withDedup {
			key := m.Position.Log + "/" + strconv.Itoa(m.Position.Partition) + "/" + strconv.FormatInt(m.Position.Offset, 10)
			_, err = tx.Exec(ctx, "insert into naive_dedup (consumer, key) values ($1, $2) on conflict do nothing", "bench", key)
		}
		if err == nil {
			_, err = tx.Exec(ctx, insertEffect, m.Position.Offset, string(m.Body))
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		if err != nil {
			b.Error(err)
			return
		}
	}
}

const ahead = 50

func eachIn(ctx context.Context, b *testing.B, g dedup.EachProcessor, ms []dedup.Message) {
	for len(ms) > 0 {
		n := min(ahead, len(ms))
		check(b, g.ProcessEach(ctx, ms[:n]), n)
		ms = ms[n:]
	}
}

func oneByOne(ctx context.Context, b *testing.B, g dedup.Processor, ms []dedup.Message) {
	for _, m := range ms {
		check(b, []dedup.Result{g.Process(ctx, m)}, 1)
	}
}

func check(b *testing.B, results []dedup.Result, want int) {
	if len(results) != want || results[want-1].Outcome != dedup.Applied {
		b.Errorf("%d of %d messages were handled: %+v", len(results), want, results[len(results)-1])
	}
}
