package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store/pgstore"
)

// receiver is somebody else's application. It hears of each payment by webhook, from Kafka or
// from NATS, and keeps books of its own, in its own schema.
func receiver(ctx context.Context, s stage, r *reporter) error {
	pool, err := s.pool(ctx, s.receiver(), 24)
	if err != nil {
		return err
	}
	defer pool.Close()
	semel, err := pgstore.New(pool, pgstore.WithSchema(s.receiverSemel()))
	if err != nil {
		return err
	}

	// An event has the same id on every copy: a webhook in its signed webhook-id, records and
	// messages in a header.
	eventID := dedup.FirstOf(webhooksub.ID(), dedup.FromHeader(kafkapub.HeaderID))
	see := &witness{r, []string{"webhook-id", kafkapub.HeaderID}}
	var counting dedup.Processor
	if counting, err = dedup.NewTx(semel, "receipts", eventID, 30*24*time.Hour, countReceipt, dedup.WithObserver(see.observe)); err != nil {
		return err
	}
	if s.Naive {
		counting = &plain{pool, countReceipt, see.observe}
	}

	verifier, err := webhooksub.Standard(s.Secret)
	if err != nil {
		return err
	}
	webhooks, err := webhooksub.New("bank", verifier, counting, webhooksub.WithLogger(logger()))
	if err != nil {
		return err
	}
	fromKafka, err := kafkasub.New(s.kafkaGroup(s.receiverGroup(), s.receiptsTopic()), counting, kafkasub.WithLogger(logger()))
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
	fromNATS, err := natssub.New(js, s.receiptsStream(), s.durable(s.receiverGroup()), counting, natssub.WithLogger(logger()))
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := r.tell(report{Listening: listener.Addr().String()}); err != nil {
		return err
	}
	// Between the network and the handler stands a source of trouble.
	return together(ctx, fromKafka.Run, fromNATS.Run, serve(listener, newCruel(webhooks, s.Seed, r)))
}

// countReceipt adds the payment to the receiver's own sums.
func countReceipt(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	var p payment
	if err := json.Unmarshal(m.Body, &p); err != nil {
		return dedup.Permanent(err)
	}
	if _, err := tx.Exec(ctx, `update accounts set balance = balance + $1 where id = $2`, p.Cents, p.Account); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `insert into receipts (payment, via, account, cents) values ($1, $2, $3, $4)`,
		p.ID, m.Position.Broker, p.Account, p.Cents)
	return err
}

// serve answers requests until ctx ends, and then those that are running.
func serve(on net.Listener, h http.Handler) func(context.Context) error {
	return func(ctx context.Context) error {
		server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(on) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := server.Shutdown(limited)
		if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}
}
