// Sqlc consumes orders from Kafka and reserves goods for each of them once, however often it is
// delivered. Its queries are Go code that sqlc generated from queries.sql and schema.sql.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store/pgstore"
)

//go:generate sqlc generate

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := run(ctx, pool, os.Getenv("KAFKA_BROKERS")); err != nil {
		log.Fatal(err)
	}
}

// run consumes until ctx ends, or until something happens that a person must mend.
func run(ctx context.Context, pool *pgxpool.Pool, broker string) error {
	if err := pgstore.Migrate(ctx, pool); err != nil { // at deploy, in real life
		return err
	}
	marks, err := pgstore.New(pool)
	if err != nil {
		return err
	}
	guard, err := dedup.NewTx(marks, "reservations", dedup.FromJSON("/order"), 30*24*time.Hour, reserve)
	if err != nil {
		return err
	}
	group := kafka.ConsumerGroupConfig{Brokers: []string{broker}, ID: "reservations", Topics: []string{"orders"}}
	consumer, err := kafkasub.New(group, guard, kafkasub.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}
