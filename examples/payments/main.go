// Payments consumes payments from Kafka and adds each of them to a balance once, however
// often it is delivered. A receipt goes out through the outbox.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	must(0, pgstore.Migrate(ctx, pool))
	marks := must(pgstore.New(pool))
	events := must(outbox.NewWriter(marks))

	guard := must(dedup.NewTx(marks, "payments", dedup.FromHeader("payment-id"),
		func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
			var p struct {
				Account string
				Cents   int64
			}
			if err := json.Unmarshal(m.Body, &p); err != nil {
				return dedup.Permanent(err) // no further attempt can mend it: dead letter
			}
			if _, err := tx.Exec(ctx, "update accounts set cents = cents + $2 where id = $1", p.Account, p.Cents); err != nil {
				return err // rolled back, and tried again
			}
			return events.WriteTx(ctx, tx, store.Event{
				Destination: "kafka", Topic: "receipts", Key: []byte(p.Account), Type: "payment.booked", Payload: m.Body,
			})
		}))

	brokers := []string{os.Getenv("KAFKA_BROKERS")}
	consumer := must(kafkasub.New(kafka.ConsumerGroupConfig{Brokers: brokers, ID: "payments", Topics: []string{"payments"}}, guard))
	relay := must(outbox.NewRelay(marks, map[string]outbox.Publisher{"kafka": must(kafkapub.New(kafkapub.NewWriter(brokers...)))}))

	relayed := make(chan error, 1)
	go func() { relayed <- relay.Run(ctx) }()
	err := consumer.Run(ctx)
	stop()
	if err := errors.Join(err, <-relayed); err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
