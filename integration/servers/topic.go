package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

const topicLimit = 30 * time.Second

// createTopic makes a topic of one replica and waits until each partition has a leader: a broker answers before that,
// and a client that comes at once is told that it does not know the topic.
func createTopic(ctx context.Context, brokers []string, name string, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, topicLimit)
	defer cancel()
	transport := &kafka.Transport{} // Its own: the default one would remember brokers of servers long gone.
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err == nil {
		err = made.Errors[name]
	}
	if err == nil {
		err = poll(ctx, 20*time.Millisecond, func(ctx context.Context) error {
			return askTopic(ctx, brokers, name, partitions)
		})
	}
	if err != nil {
		return fmt.Errorf("servers: create topic %s: %w", name, err)
	}
	return nil
}

// askTopic asks the brokers on a new connection, past all caches, whether the topic is there with all its partitions.
func askTopic(ctx context.Context, brokers []string, name string, partitions int) error {
	return askBroker(ctx, brokers, func(conn *kafka.Conn) error {
		found, err := conn.ReadPartitions(name)
		if err != nil {
			return err
		}
		if len(found) != partitions {
			return fmt.Errorf("%d of %d partitions are there", len(found), partitions)
		}
		for _, p := range found {
			if p.Leader.Host == "" {
				return fmt.Errorf("partition %d has no leader", p.ID)
			}
		}
		return nil
	})
}

// askBroker runs ask on a connection to the first broker that accepts one.
func askBroker(ctx context.Context, brokers []string, ask func(*kafka.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs []error
	for _, addr := range brokers {
		conn, err := kafka.DialContext(ctx, "tcp", addr)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer conn.Close()
		if deadline, ok := ctx.Deadline(); ok {
			if err := conn.SetDeadline(deadline); err != nil {
				return err
			}
		}
		return ask(conn)
	}
	return errors.Join(errs...)
}
