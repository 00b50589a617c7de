package kafkapub_test

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store"
)

// A relay makes these calls; what became of each event is in the place of the event.
func Example() {
	ctx := context.Background()
	broker, err := servers.StartKfake(kfake.SeedTopics(3, "payments"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()

	w := kafkapub.NewWriter(broker.Brokers()...)
	transport := &kafka.Transport{} // the place for TLS and SASL
	defer transport.CloseIdleConnections()
	w.Transport = transport
	p, err := kafkapub.New(w)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close(ctx)

	errs := p.Publish(ctx, []store.Event{
		{ID: store.NewID(), Topic: "payments", Key: []byte("order-1"), Type: "payment.captured", Payload: []byte(`{"amount":100}`)},
		{ID: store.NewID(), Topic: "pay ments", Key: []byte("order-2"), Payload: []byte(`{}`)},
		{ID: store.NewID(), Topic: "payments", Key: []byte("order-2"), Payload: []byte(`{}`)},
	})
	for _, err := range errs {
		fmt.Println(outbox.VerdictOf(err))
	}
	// Output:
	// confirmed
	// refused for good
	// not sent
}
