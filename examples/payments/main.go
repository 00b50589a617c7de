// Payments consumes payments from Kafka and adds each of them to a balance once, however
// often it is delivered. A receipt for each goes back to Kafka through the outbox.
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
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	brokers := []string{os.Getenv("KAFKA_BROKERS")}
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	check(pgstore.Migrate(ctx, pool)) // at deploy, in real life
	db := must(pgstore.New(pool))

	receipts := must(kafkapub.New(kafkapub.NewWriter(brokers...)))
	relay := must(outbox.NewRelay(db, map[string]outbox.Publisher{"kafka": receipts}, outbox.WithLogger(slog.Default())))
	writer := must(outbox.NewWriter(db, outbox.WithWake(relay.Wake)))

	guard := must(dedup.NewTx(db, "payments", dedup.FromHeader("payment-id"), 30*24*time.Hour, book(writer)))
	group := kafka.ConsumerGroupConfig{Brokers: brokers, ID: "payments", Topics: []string{"payments"}}
	consumer := must(kafkasub.New(group, guard, kafkasub.WithLogger(slog.Default())))

	relayed := make(chan error, 1)
	go func() {
		defer stop() // neither goes on without the other
		relayed <- relay.Run(ctx)
	}()
	err := consumer.Run(ctx) // until Ctrl-C, or an error that a person must mend
	stop()
	check(errors.Join(err, <-relayed, receipts.Close(context.Background())))
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
