package kafkapub_test

import (
	"fmt"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store"
)

// What the publisher costs: calls of 500 events over 100 keys to a broker in the process.
func BenchmarkPublish(b *testing.B) {
	broker := servertest.Kfake(b, kfake.SeedTopics(12, "a"))
	w := kafkapub.NewWriter(broker.Brokers()...)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w.Transport = transport
	p, err := kafkapub.New(w)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close(b.Context())
	const size = 500
	var events []store.Event
	for i := range size {
		events = append(events, event("a", fmt.Sprintf("key-%d", i%100), "0123456789"))
	}
	b.ReportAllocs()
	for b.Loop() {
		if errs := p.Publish(b.Context(), events); errs != nil {
			b.Fatal(errs)
		}
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
}
