package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

const (
	idHeader = "event-id"
	ackWait  = 400 * time.Millisecond
)

// run is a whole worker, or a whole relay, as a user would write it.
func (o orders) run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, o.DSN)
	if err != nil {
		return err
	}
	s, err := pgstore.New(pool)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(o.NATS)
	if err != nil {
		return err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	d := newDeath(o)
	switch o.Role {
	case "nats":
		guard, err := o.guard(s, d)
		if err != nil {
			return err
		}
		c, err := natssub.New(js, "PAYMENTS", consumerConfig("worker"), guard, natssub.WithPolicy(patience))
		if err != nil {
			return err
		}
		return c.Run(ctx)
	case "kafka":
		guard, err := o.guard(s, d)
		if err != nil {
			return err
		}
		c, err := kafkasub.New(kafka.ConsumerGroupConfig{
			Brokers: o.Kafka, ID: o.Group, Topics: []string{"payments"}, StartOffset: kafka.FirstOffset,
			HeartbeatInterval: 200 * time.Millisecond,
		}, guard, kafkasub.WithPolicy(patience), kafkasub.WithFetch(1, 1<<20, 100*time.Millisecond))
		if err != nil {
			return err
		}
		return c.Run(ctx)
	case "relay":
		p, err := natspub.New(js)
		if err != nil {
			return err
		}
		r, err := outbox.NewRelay(s, map[string]outbox.Publisher{"receipts": mortalPublisher{p, d}},
			outbox.WithPoll(50*time.Millisecond), outbox.WithLease(time.Second))
		if err != nil {
			return err
		}
		return r.Run(ctx)
	default:
		return fmt.Errorf("no role %q", o.Role)
	}
}

// patience never gives a message up: whatever fails here fails because of the crashes.
var patience = consumers.Policy{MaxAttempts: 1000, MinDelay: 10 * time.Millisecond, MaxDelay: 100 * time.Millisecond}

func consumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait}
}

// guard is around a handler that does something plainly wrong when it is done twice.
func (o orders) guard(s *pgstore.Store, d *death) (*dedup.TxGuard[pgx.Tx], error) {
	writer, err := outbox.NewWriter(s)
	if err != nil {
		return nil, err
	}
	handler := func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		id, _ := m.Header(idHeader)
		if _, err := tx.Exec(ctx, "insert into effects (id) values ($1)", string(id)); err != nil {
			return err
		}
		d.at(handled)
		err := writer.WriteTx(ctx, tx, store.Event{
			Destination: "receipts", Topic: "receipts.paid", Key: id, Type: "payment.receipt", Payload: id,
		})
		d.at(appended)
		return err
	}
	return dedup.NewTx(mortalMarks{s, s, d}, "payments", dedup.FromHeader(idHeader), dedup.Forever, handler)
}
