package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/examples/sqlc/db"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// Every order is delivered twice, and one of them cannot be met: it leaves nothing behind.
func TestGoodsAreReservedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broker := servertest.Kfake(t)
	if err := broker.CreateTopic(ctx, "orders", 1); err != nil {
		t.Fatal(err)
	}
	pool := shop(ctx, t)
	writer := &kafka.Writer{Addr: kafka.TCP(broker.Brokers()...), Topic: "orders", BatchTimeout: time.Millisecond}
	defer func() { _ = writer.Close() }()
	for _, order := range []string{
		`{"order":"o-1","sku":"lamp","quantity":3}`,
		`{"order":"o-2","sku":"lamp","quantity":100}`,
		`{"order":"o-3","sku":"lamp","quantity":2}`,
		`{"order":"o-4","sku":"chair","quantity":1}`, // the last
	} {
		message := kafka.Message{Value: []byte(order)}
		if err := writer.WriteMessages(ctx, message, message); err != nil {
			t.Fatal(err)
		}
	}

	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(running, pool, broker.Brokers()[0]) }()
	queries := db.New(pool)
	for reserved := 0; reserved < 3; {
		select {
		case err := <-ended:
			t.Fatalf("the program ended with %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		all, err := queries.Reservations(ctx)
		if err != nil {
			t.Fatal(err)
		}
		reserved = len(all)
	}
	stop() // the second copy of the last order may be in hand
	if err := <-ended; err != nil {
		t.Errorf("the program ended with %v", err)
	}

	all, err := queries.Reservations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var orders []string
	for _, r := range all {
		orders = append(orders, r.OrderID)
	}
	if want := []string{"o-1", "o-3", "o-4"}; !slices.Equal(orders, want) {
		t.Errorf("there are reservations for %v, want %v", orders, want)
	}
	for sku, want := range map[string]int64{"lamp": 5, "chair": 3} {
		if n, err := queries.OnHand(ctx, sku); err != nil || n != want {
			t.Errorf("%s: %d are left (%v), want %d", sku, n, err, want)
		}
	}
}

// shop is a database with ten lamps and four chairs.
func shop(ctx context.Context, t *testing.T) *pgxpool.Pool {
	t.Helper()
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, servertest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, string(schema)+"insert into stock values ('lamp', 10), ('chair', 4)"); err != nil {
		t.Fatal(err)
	}
	return pool
}
