// Databasesql consumes purchases from Kafka and credits each of them with points once, however
// often it is delivered. Its handler works with a *sql.Tx, as do GORM, Bun, sqlx, ent and sqlc.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store/pgstore"
	"github.com/semel-dev/semel/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	brokers := []string{os.Getenv("KAFKA_BROKERS")}
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	check(pgstore.Migrate(ctx, pool)) // at deploy, in real life

	// The application's own sql.DB. A relay needs pgx; here both share a pool.
	db := must(sqlstore.New(stdlib.OpenDBFromPool(pool)))
	relay := must(outbox.NewRelay(must(pgstore.New(pool)), map[string]outbox.Publisher{
		"kafka": must(kafkapub.New(kafkapub.NewWriter(brokers...))),
	}, outbox.WithLogger(slog.Default())))
	writer := must(outbox.NewWriter(db, outbox.WithWake(relay.Wake)))

	guard := must(dedup.NewTx(db, "loyalty", dedup.FromHeader("purchase-id"), 30*24*time.Hour, credit(writer)))
	group := kafka.ConsumerGroupConfig{Brokers: brokers, ID: "loyalty", Topics: []string{"purchases"}}
	consumer := must(kafkasub.New(group, guard, kafkasub.WithLogger(slog.Default())))

	relayed := make(chan error, 1)
	go func() {
		defer stop() // neither goes on without the other
		relayed <- relay.Run(ctx)
	}()
	err := consumer.Run(ctx) // until Ctrl-C, or an error that a person must mend
	stop()
	check(errors.Join(err, <-relayed))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
