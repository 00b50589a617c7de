package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// worker is the bank's consumer: it books payments that arrive on Kafka and on NATS. It
// is killed with SIGKILL several times in this story.
func worker(ctx context.Context, s stage, r *reporter) error {
	pool, err := s.pool(ctx, s.bank(), 16)
	if err != nil {
		return err
	}
	defer pool.Close()
	semel, err := pgstore.New(pool, pgstore.WithSchema(s.bankSemel()))
	if err != nil {
		return err
	}

	writer, err := outbox.NewWriter(semel, outbox.WithDestinations(viaWebhook, viaKafka, viaNATS))
	if err != nil {
		return err
	}
	book := booking(s, writer)

	// This is all there is to it. Both consumers share the guard, so a payment that comes
	// over both brokers is one payment.
	see := &witness{r, []string{paymentID}}
	var bank dedup.Processor
	if bank, err = dedup.NewTx(semel, "bank", dedup.FromHeader(paymentID), 30*24*time.Hour, book, dedup.WithObserver(see.observe)); err != nil {
		return err
	}
	if s.Naive {
		bank = &plain{pool, book, see.observe}
	}
	fromKafka, err := kafkasub.New(s.kafkaGroup(s.bankGroup(), s.paymentsTopic()), bank, kafkasub.WithLogger(logger()))
	if err != nil {
		return err
	}
	conn, err := nats.Connect(s.NATS, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	fromNATS, err := natssub.New(js, s.paymentsStream(), s.durable(s.bankGroup()), bank, natssub.WithLogger(logger()))
	if err != nil {
		return err
	}
	return together(ctx, fromKafka.Run, fromNATS.Run)
}

// booking returns the handler. It adds the payment to the balance of its account, which is plainly
// wrong when done twice, and writes a receipt into the outbox. All of that is in the transaction
// in which the guard has marked the payment as done.
func booking(s stage, receipts *outbox.Writer[pgx.Tx]) dedup.TxHandlerFunc[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		var p payment
		if err := json.Unmarshal(m.Body, &p); err != nil {
			return dedup.Permanent(err) // No further attempt makes JSON of it.
		}
		if _, err := tx.Exec(ctx, `update accounts set balance = balance + $1 where id = $2`, p.Cents, p.Account); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into bookings (payment, account, cents) values ($1, $2, $3)`, p.ID, p.Account, p.Cents); err != nil {
			return err
		}
		return receipts.WriteTx(ctx, tx, s.receipt(p, m.Body))
	}
}

// receipt tells the world of a payment, in one of three ways.
func (s stage) receipt(p payment, body []byte) store.Event {
	e := store.Event{Type: "payment.booked", Key: []byte(strconv.Itoa(p.Account)), Payload: body}
	switch p.Account % 3 {
	case 0:
		e.Destination, e.Topic = viaWebhook, endpointOf(p.Account)
	case 1:
		e.Destination, e.Topic = viaKafka, s.receiptsTopic()
	default:
		e.Destination, e.Topic = viaNATS, s.receiptsSubject()
	}
	return e
}

// kafkaGroup has short timeouts, so that the story is not mostly about waiting: a member that
// was killed holds its partitions until they are over. The defaults, 30 seconds, are
// better wherever a pause of the process must not look like its death.
func (s stage) kafkaGroup(id, topic string) kafka.ConsumerGroupConfig {
	return kafka.ConsumerGroupConfig{
		ID: id, Brokers: s.Kafka, Topics: []string{topic},
		StartOffset:       kafka.FirstOffset,
		HeartbeatInterval: 200 * time.Millisecond,
		SessionTimeout:    6 * time.Second,
		RebalanceTimeout:  3500 * time.Millisecond,
		JoinGroupBackoff:  200 * time.Millisecond,
	}
}

// durable has a short ack wait for the same reason: it is how long what a killed worker had
// in hand is not delivered to anybody else.
func (s stage) durable(name string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: name, AckWait: 2 * time.Second}
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
