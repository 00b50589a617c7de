//go:build unix

package soak

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
)

const (
	kafkaTopic = "soak"

	// The least that brokers take by default.
	sessionTimeout = 6 * time.Second
)

// kafkaClient reaches the broker by way of the child's own proxy, whatever address the broker
// gives for itself.
type kafkaClient struct{ o orders }

func newKafkaClient(o orders) kafkaClient { return kafkaClient{o} }

func (c kafkaClient) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, network, c.o.Addr)
}

func (c kafkaClient) consume(ctx context.Context, p dedup.Processor, log *slog.Logger) error {
	opts := []kafkasub.Option{kafkasub.WithPolicy(policy), kafkasub.WithLogger(log), kafkasub.WithSilence(5 * time.Second)}
	if c.o.Mode.batches() {
		opts = append(opts, kafkasub.WithBatch(25, 5*time.Millisecond))
	}
	if c.o.Group == parking {
		opts = append(opts, kafkasub.WithConcurrency(3), kafkasub.WithOrderBy(orderOf))
	}
	consumer, err := kafkasub.New(kafka.ConsumerGroupConfig{
		Brokers: c.o.Brokers, ID: c.o.Group, Topics: []string{kafkaTopic}, StartOffset: kafka.FirstOffset,
		Dialer:            &kafka.Dialer{ClientID: c.o.Name, Timeout: 3 * time.Second, DialFunc: c.dial},
		HeartbeatInterval: 300 * time.Millisecond, SessionTimeout: sessionTimeout, RebalanceTimeout: sessionTimeout,
		JoinGroupBackoff: 200 * time.Millisecond,
	}, p, opts...)
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

func (c kafkaClient) publisher() (outbox.Publisher, error) {
	w := kafkapub.NewWriter(c.o.Brokers...)
	w.Transport = &kafka.Transport{Dial: c.dial, ClientID: c.o.Name, DialTimeout: 3 * time.Second}
	w.WriteTimeout, w.ReadTimeout = 3*time.Second, 3*time.Second
	return kafkapub.New(w)
}
