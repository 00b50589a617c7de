package bench

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/pgstore"
)

// BenchmarkSavepoint measures what it costs a handler to isolate each message of a batch by a
// savepoint of its own, and what it costs to have none, where one message in every batch
// of 500 cannot be handled: the guard, which sets no savepoints, then rolls the batch back and runs
// what stood before that message again.
func BenchmarkSavepoint(b *testing.B) {
	const size, each = 500, 3000
	pool := database(b, 1)
	s, err := pgstore.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	guard := func(consumer string, h dedup.TxHandlerFunc[pgx.Tx]) *dedup.TxGuard[pgx.Tx] {
		g, err := dedup.NewTx(s, consumer, dedup.FromCoordinates(), dedup.Forever, h)
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	none, three, one := guard("none", insertOne), guard("three", insertInSavepoint), guard("one", insertInOneTrip)

	healthy := func(g *dedup.TxGuard[pgx.Tx]) func() (int, time.Duration) {
		return func() (int, time.Duration) {
			return inLanes(b, pool, 1, each, func(ctx context.Context, ms []dedup.Message) { batchesIn(ctx, b, g, ms, size) })
		}
	}
	poisoned := func(g *dedup.TxGuard[pgx.Tx]) func() (int, time.Duration) {
		return func() (int, time.Duration) {
			return inLanes(b, pool, 1, each, func(ctx context.Context, ms []dedup.Message) {
				for i := size / 2; i < len(ms); i += size {
					ms[i].Body = nil
				}
				batchesBuried(ctx, b, g, ms, size)
				countEffects(b, pool, each-each/size)
			})
		}
	}
	c := newContest(b)
	c.add("none", healthy(none))
	c.add("savepoint", healthy(three))
	c.add("savepoint-1rt", healthy(one))
	c.add("none-poison", poisoned(none))
	c.add("savepoint-poison", poisoned(three))
	c.add("savepoint-1rt-poison", poisoned(one))
	c.run()
	c.ratio("G9", "savepoint", "none")
	c.ratio("G9", "savepoint-1rt", "none")
	c.ratio("poison", "none-poison", "none")
	c.ratio("poison", "savepoint-poison", "none")
	c.ratio("poison", "savepoint-1rt-poison", "none")
}

// bodyOf is NULL, which the table refuses, for a message without a body.
func bodyOf(m dedup.Message) *string {
	if m.Body == nil {
		return nil
	}
	body := string(m.Body)
	return &body
}

func insertOne(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	_, err := tx.Exec(ctx, insertEffect, m.Position.Offset, bodyOf(m))
	return err
}

// insertInSavepoint gives a message up by itself, and goes on: SAVEPOINT, the statement and
// RELEASE are a round trip each.
func insertInSavepoint(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := savepoint.Exec(ctx, insertEffect, m.Position.Offset, bodyOf(m)); err != nil {
		return savepoint.Rollback(ctx)
	}
	return savepoint.Commit(ctx)
}

// insertInOneTrip does the same with the three in one round trip.
func insertInOneTrip(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	q := &pgx.Batch{}
	q.Queue("savepoint message")
	q.Queue(insertEffect, m.Position.Offset, bodyOf(m))
	q.Queue("release savepoint message")
	if tx.SendBatch(ctx, q).Close() == nil {
		return nil
	}
	_, err := tx.Exec(ctx, "rollback to savepoint message")
	return err
}

// batchesBuried gives the message that fails to the dead letters, as consumers do, and goes on
// behind it.
func batchesBuried(ctx context.Context, b *testing.B, g *dedup.TxGuard[pgx.Tx], ms []dedup.Message, size int) {
	for rest := ms[:0]; len(ms) > 0 || len(rest) > 0; {
		if len(rest) == 0 {
			n := min(size, len(ms))
			rest, ms = ms[:n], ms[n:]
		}
		results := g.ProcessBatch(ctx, rest)
		last := results[len(results)-1]
		if !last.Outcome.Settled() {
			last = g.Bury(ctx, rest[len(results)-1], last.Err)
		}
		if !last.Outcome.Settled() {
			b.Errorf("a message was not settled: %+v", last)
			return
		}
		rest = rest[len(results):]
	}
}

// countEffects looks whether what was measured was also done.
func countEffects(b *testing.B, pool *pgxpool.Pool, want int) {
	b.Helper()
	var n int
	if err := pool.QueryRow(context.Background(), "select count(*) from effects").Scan(&n); err != nil {
		b.Error(err)
	} else if n != want {
		b.Errorf("there are %d effects, not %d", n, want)
	}
}
