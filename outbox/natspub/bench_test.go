package natspub_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/store"
)

// What the publisher costs: calls of 500 events to a server in the process, without keys and
// with the worst there is, one key for all.
func BenchmarkPublish(b *testing.B) {
	for name, key := range map[string]string{"no key": "", "one key": "k"} {
		b.Run(name, func(b *testing.B) {
			conn, err := nats.Connect(servertest.StartNATS(b).URL())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			js, err := jetstream.New(conn)
			if err != nil {
				b.Fatal(err)
			}
			c := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Storage: jetstream.MemoryStorage}
			if _, err := js.CreateStream(context.Background(), c); err != nil {
				b.Fatal(err)
			}
			p, err := natspub.New(js)
			if err != nil {
				b.Fatal(err)
			}
			const size = 500
			events := make([]store.Event, size)
			for b.Loop() {
				for i := range events {
					events[i] = event("orders.paid", key, "0123456789")
				}
				if errs := p.Publish(b.Context(), events); errs != nil {
					b.Fatal(errs)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
