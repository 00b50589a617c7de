package kafkasub_test

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store/memstore"
)

// A producer sends an order twice, as it does when an answer is lost on the way. The order has
// its effect once.
func Example() {
	broker, err := servers.StartKfake()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := broker.CreateTopic(ctx, "orders", 1); err != nil {
		fmt.Println(err)
		return
	}
	writer := &kafka.Writer{Addr: kafka.TCP(broker.Brokers()...), Topic: "orders", RequiredAcks: kafka.RequireAll, Transport: &kafka.Transport{}}
	order := func(id string) kafka.Message {
		return kafka.Message{Value: []byte("two books"), Headers: []kafka.Header{{Key: "event-id", Value: []byte(id)}}}
	}
	if err := writer.WriteMessages(ctx, order("o-1"), order("o-1"), order("o-2")); err != nil {
		fmt.Println(err)
		return
	}
	writer.Close()
	writer.Transport.(*kafka.Transport).CloseIdleConnections()

	store := memstore.New()
	guard, err := dedup.NewTx(store, "shipping", dedup.FromHeader("event-id"), 30*24*time.Hour,
		func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			shipped, err := tx.Add(ctx, "shipped", 1)
			fmt.Printf("offset %d: %s\n", m.Position.Offset, m.Body)
			if shipped == 2 {
				cancel() // the example has seen enough
			}
			return err
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	consumer, err := kafkasub.New(kafka.ConsumerGroupConfig{
		ID: "shipping", Brokers: broker.Brokers(), Topics: []string{"orders"},
	}, guard)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := consumer.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("shipped:", store.Get("shipped"))
	// Output:
	// offset 0: two books
	// offset 2: two books
	// shipped: 2
}
