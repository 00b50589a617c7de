package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store/pgstore"
)

var (
	//go:embed bank.sql
	bankTables string
	//go:embed receiver.sql
	receiverTables string
)

const partitions = 4 // of each topic

// house is the servers, with everything on them that the story needs.
type house struct {
	stage    stage
	postgres *servers.Postgres
	kafka    *servers.Kafka
	nats     *servers.NATS
	db       *pgxpool.Pool
	conn     *nats.Conn
	js       jetstream.JetStream
	client   *kafka.Client
	undo     []func(context.Context) error // in the order of what was done
}

// open starts the servers that the environment does not name, and sets them up.
func open(ctx context.Context, s stage) (_ *house, err error) {
	h := &house{stage: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close(ctx))
		}
	}()
	if h.postgres, err = servers.OpenPostgres(ctx); err != nil {
		return nil, err
	}
	h.later(func(context.Context) error { return h.postgres.Stop() })
	if h.nats, err = servers.OpenNATS(ctx); err != nil {
		return nil, err
	}
	h.later(func(context.Context) error { return h.nats.Stop() })
	if h.kafka, err = servers.OpenKafka(ctx); err != nil {
		return nil, err
	}
	h.later(func(context.Context) error { return h.kafka.Close() })
	h.stage.Postgres, h.stage.NATS, h.stage.Kafka = h.postgres.DSN(), h.nats.URL(), h.kafka.Brokers()

	for _, set := range []func(context.Context) error{h.setPostgres, h.setKafka, h.setNATS} {
		if err := set(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *house) later(undo func(context.Context) error) { h.undo = append(h.undo, undo) }

// close takes everything back in the reverse order. It works after ctx has ended, too.
func (h *house) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for i := len(h.undo) - 1; i >= 0; i-- {
		errs = append(errs, h.undo[i](ctx))
	}
	h.undo = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", errCleanup, err)
	}
	return nil
}

// errCleanup: something was left behind.
var errCleanup = errors.New("clean up")

func (h *house) setPostgres(ctx context.Context) (err error) {
	if h.db, err = h.stage.pool(ctx, "", 4); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	h.later(func(context.Context) error { h.db.Close(); return nil })
	for _, app := range []struct{ schema, semel, tables string }{
		{h.stage.bank(), h.stage.bankSemel(), bankTables},
		{h.stage.receiver(), h.stage.receiverSemel(), receiverTables},
	} {
		h.later(func(ctx context.Context) error { return h.drop(ctx, app.schema, app.semel) })
		if err := h.createTables(ctx, app.schema, app.tables); err != nil {
			return fmt.Errorf("create the tables of %s: %w", app.schema, err)
		}
		if err := pgstore.Migrate(ctx, h.db, pgstore.WithSchema(app.semel)); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) createTables(ctx context.Context, schema, tables string) error {
	return pgx.BeginFunc(ctx, h.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`
			create schema %[1]s;
			set local search_path = %[1]s;
			%[2]s
			insert into accounts (id) select generate_series(1, %[3]d)`, schema, tables, accounts))
		return err
	})
}

func (h *house) drop(ctx context.Context, schemas ...string) error {
	if !h.postgres.External() {
		return nil // All of it goes with the server.
	}
	var errs []error
	for _, schema := range schemas {
		_, err := h.db.Exec(ctx, "drop schema if exists "+schema+" cascade")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (h *house) setKafka(ctx context.Context) error {
	transport := &kafka.Transport{}
	h.client = &kafka.Client{Addr: kafka.TCP(h.stage.Kafka...), Transport: transport}
	h.later(func(context.Context) error { transport.CloseIdleConnections(); return nil })
	topics := []string{h.stage.paymentsTopic(), h.stage.receiptsTopic()}
	if h.kafka.Kind() == servers.ExternalKafka {
		h.later(func(ctx context.Context) error { return h.deleteFromKafka(ctx, topics) })
	}
	for _, topic := range topics {
		if err := h.kafka.CreateTopic(ctx, topic, partitions); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) deleteFromKafka(ctx context.Context, topics []string) error {
	var errs []error
	deleted, err := h.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: topics})
	if err != nil {
		errs = append(errs, err)
	} else {
		for topic, err := range deleted.Errors {
			if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
				errs = append(errs, fmt.Errorf("delete topic %s: %w", topic, err))
			}
		}
	}
	for _, group := range []string{h.stage.bankGroup(), h.stage.receiverGroup()} {
		err := h.deleteGroup(ctx, group)
		// Members that were killed are in the group until their session has timed out.
		for errors.Is(err, kafka.NonEmptyGroup) && ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
			err = h.deleteGroup(ctx, group)
		}
		if err != nil && !errors.Is(err, kafka.GroupIdNotFound) {
			errs = append(errs, fmt.Errorf("delete group %s: %w", group, err))
		}
	}
	return errors.Join(errs...)
}

func (h *house) deleteGroup(ctx context.Context, group string) error {
	deleted, err := h.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return deleted.Errors[group]
}

func (h *house) setNATS(ctx context.Context) (err error) {
	if h.conn, err = nats.Connect(h.stage.NATS, nats.Name("semel quickstart")); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	h.later(func(context.Context) error { h.conn.Close(); return nil })
	if h.js, err = jetstream.New(h.conn, jetstream.WithPublishAsyncMaxPending(500)); err != nil {
		return err
	}
	for name, subject := range map[string]string{
		h.stage.paymentsStream(): h.stage.paymentsSubject(),
		h.stage.receiptsStream(): h.stage.receiptsSubject(),
	} {
		if h.nats.External() {
			h.later(func(ctx context.Context) error { return h.deleteFromNATS(ctx, name) })
		}
		if _, err := h.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			return fmt.Errorf("create stream %s: %w", name, err)
		}
	}
	return nil
}

func (h *house) deleteFromNATS(ctx context.Context, stream string) error {
	if err := h.js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete stream %s: %w", stream, err)
	}
	return nil
}

// String says which servers there are.
func (h *house) String() string {
	var version string
	if err := h.db.QueryRow(context.Background(), "show server_version").Scan(&version); err != nil {
		version = "?"
	}
	version, _, _ = strings.Cut(version, " ")
	postgres, nats, kafka := "started", "embedded", "kfake, embedded"
	if h.postgres.External() {
		postgres = "DATABASE_URL"
	}
	if h.nats.External() {
		nats = "NATS_URL"
	}
	switch h.kafka.Kind() {
	case servers.ExternalKafka:
		kafka = "KAFKA_BROKERS"
	case servers.ApacheBroker:
		kafka = "Apache, started"
	}
	return fmt.Sprintf("PostgreSQL %s (%s), NATS %s (%s), Kafka (%s)",
		version, postgres, h.conn.ConnectedServerVersion(), nats, kafka)
}
