package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store/pgstore"
)

var (
	server    *servers.Postgres
	databases atomic.Int64 // made so far; the names of two must differ
)

// TestMain stops the server that the first benchmark starts.
func TestMain(m *testing.M) {
	code := m.Run()
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// startServer starts one that is as durable as in production: without fsync a commit would
// cost nothing and every ratio would be another one.
func startServer(b *testing.B) {
	b.Helper()
	if server != nil {
		return
	}
	var err error
	server, err = servers.OpenPostgres(context.Background(),
		servers.WithSetting("max_wal_size", "8GB"), servers.WithSetting("shared_buffers", "1GB"))
	if err != nil {
		b.Fatal(err)
	}
}

// database is a fresh one with the tables of Semel and of the hand-written variants.
func database(b *testing.B, conns int) *pgxpool.Pool {
	b.Helper()
	startServer(b)
	ctx := context.Background()
	dsn, err := server.CreateDatabase(ctx, fmt.Sprintf("bench_%d_%d", os.Getpid(), databases.Add(1)))
	if err != nil {
		b.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns, config.MinConns = int32(conns), int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if err := pgstore.Migrate(ctx, pool); err != nil {
		b.Fatal(err)
	}
	mustExec(b, pool, `create table effects (id bigint primary key, body text not null);
		create table naive_dedup (consumer text not null, key text not null, primary key (consumer, key))`)
	return pool
}

func mustExec(b *testing.B, pool *pgxpool.Pool, sql string) {
	b.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		b.Fatal(err)
	}
}

// clear empties what the last variant filled, outside of the clock of the next one.
func clear(b *testing.B, pool *pgxpool.Pool) {
	mustExec(b, pool, "truncate effects, naive_dedup, semel.marks_timed, semel.marks_plain")
	runtime.GC()
}

var sequence atomic.Int64

// message is one of about 100 bytes with a place in a log, an hour of them in a thousand seconds.
func message() dedup.Message {
	n := sequence.Add(1)
	return dedup.Message{
		Position: dedup.Position{Broker: "kafka", Log: "payments", Partition: int(n % 8), Offset: n, Time: time.UnixMilli(1_795_000_000_000 + n/10)},
		Body:     []byte("0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"),
	}
}

func messages(n int) []dedup.Message {
	ms := make([]dedup.Message, n)
	for i := range ms {
		ms[i] = message()
	}
	return ms
}
