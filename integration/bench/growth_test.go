package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// existingRows is how many marks there are before a measurement: few by default, so that everybody can
// run it, and as many as the goals speak of with SEMEL_BENCH_ROWS=20000000.
func existingRows(b *testing.B) int {
	b.Helper()
	text := os.Getenv("SEMEL_BENCH_ROWS")
	if text == "" {
		return 200_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		b.Fatalf("SEMEL_BENCH_ROWS=%s: give a number of rows, 1000 or more", text)
	}
	return n
}

// withSchema is a store whose tables lie in a schema of their own, with its partitions.
func withSchema(b *testing.B, pool *pgxpool.Pool, schema string, opts ...pgstore.MigrateOption) *pgstore.Store {
	b.Helper()
	if err := pgstore.Migrate(context.Background(), pool, append(opts, pgstore.WithSchema(schema))...); err != nil {
		b.Fatal(err)
	}
	s, err := pgstore.New(pool, pgstore.WithSchema(schema))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// keySQL makes timed keys in the server: of a time in milliseconds, and random behind it.
func keySQL(ms string) string {
	return "(lpad(to_hex(" + ms + "), 12, '0') || substr(replace(gen_random_uuid()::text, '-', ''), 13))::uuid"
}

// BenchmarkGrowth measures setting marks in steps of 500, and nothing else, in a table that holds many
// and in an empty one: with a time in the key, and without.
func BenchmarkGrowth(b *testing.B) {
	pool, rows := database(b, 1), existingRows(b)
	few, many := withSchema(b, pool, "few"), withSchema(b, pool, "many")
	begin := time.Now()
	scope := scopeFor(b, many, "bench")
	mustExec(b, pool, fmt.Sprintf("insert into many.marks_timed (scope, key) select %d, %s from generate_series(1, %d) i", scope, keySQL(fmt.Sprintf("%d + i / 10", begin.UnixMilli()-int64(rows)/10)), rows))
	mustExec(b, pool, fmt.Sprintf("insert into many.marks_plain (scope, key, at) select %d, gen_random_uuid(), now() from generate_series(1, %d) i", scope, rows))
	mustExec(b, pool, "vacuum analyze many.marks_timed, many.marks_plain")
	b.Logf("%d rows of each kind in %s", rows, time.Since(begin))

	var n atomic.Int64
	timed := func() store.Key {
		i := n.Add(1)
		return store.TimedKey(begin.Add(time.Duration(i)*100*time.Microsecond), strconv.AppendInt(nil, i, 10))
	}
	plain := func() store.Key { return store.DigestKey(strconv.AppendInt(nil, n.Add(1), 10)) }
	c := newContest(b)
	for _, v := range []struct {
		name  string
		s     *pgstore.Store
		key   func() store.Key
		empty string
	}{
		{"timed-few", few, timed, "few.marks_timed"}, {"timed-many", many, timed, ""},
		{"plain-few", few, plain, "few.marks_plain"}, {"plain-many", many, plain, ""},
	} {
		c.add(v.name, func() (int, time.Duration) {
			if v.empty != "" {
				mustExec(b, pool, "truncate "+v.empty)
			}
			return markSteps(b, v.s, 100, 500, v.key)
		})
	}
	c.run()
	c.ratio("G10", "timed-many", "timed-few")
	c.ratio("G10b", "timed-many", "plain-many")
	c.ratio("G11", "plain-many", "plain-few")
}

func scopeFor(b *testing.B, s *pgstore.Store, consumer string) store.Scope {
	b.Helper()
	scope, err := s.Scope(context.Background(), consumer, store.Forever)
	if err != nil {
		b.Fatal(err)
	}
	return scope
}

func markSteps(b *testing.B, s *pgstore.Store, steps, size int, key func() store.Key) (int, time.Duration) {
	ctx, scope := context.Background(), scopeFor(b, s, "bench")
	all := make([][]store.Mark, steps)
	for i := range all {
		for range size {
			all[i] = append(all[i], store.Mark{Scope: scope, Key: key()})
		}
	}
	start := time.Now()
	for _, marks := range all {
		u, status, err := s.Begin(ctx, marks)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Commit(ctx); err != nil || status[0] != store.New {
			b.Fatal(status[0], err)
		}
	}
	return steps * size, time.Since(start)
}

// BenchmarkDuplicates measures batches in which every tenth message is a duplicate, beside
// batches of new ones.
func BenchmarkDuplicates(b *testing.B) {
	pool := database(b, 1)
	s, err := pgstore.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	g := liveGuard(b, s, dedup.FromCoordinates())
	run := func(share int) func() (int, time.Duration) {
		return func() (int, time.Duration) {
			clear(b, pool)
			known := messages(500)
			check(b, g.ProcessBatch(context.Background(), known), len(known))
			ms := messages(40_000)
			for i := range ms {
				if share > 0 && i%share == share/2 {
					ms[i] = known[i%len(known)]
				}
			}
			start := time.Now()
			batchesIn(context.Background(), b, g, ms, 500)
			return len(ms), time.Since(start)
		}
	}
	c := newContest(b)
	c.add("new", run(0))
	c.add("tenth", run(10))
	c.run()
	c.ratio("G14", "tenth", "new")
}
