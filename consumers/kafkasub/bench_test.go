package kafkasub_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
)

// null settles whatever it is handed.
type null struct {
	settled atomic.Int64
	want    int64
	enough  chan struct{}
}

func (n *null) Process(context.Context, dedup.Message) dedup.Result { return n.done(1)[0] }

func (n *null) ProcessEach(_ context.Context, ms []dedup.Message) []dedup.Result {
	return n.done(len(ms))
}

func (n *null) done(k int) []dedup.Result {
	results := make([]dedup.Result, k)
	for i := range results {
		results[i] = applied
	}
	if after := n.settled.Add(int64(k)); after >= n.want && after-int64(k) < n.want {
		close(n.enough)
	}
	return results
}

// What the consumer itself costs: a broker in the same process, and a processor that does nothing.
func BenchmarkConsumer(b *testing.B) {
	const records = 200_000
	broker := startBroker(b, 1)
	client := newClient(b, broker, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var keys [64][]byte
	for i := range keys {
		keys[i] = []byte{'k', byte(i)}
	}
	body := make([]byte, 100)
	for i := range records {
		client.Produce(b.Context(), &kgo.Record{Topic: topic, Key: keys[i%len(keys)], Value: body}, nil)
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, opts := range map[string][]kafkasub.Option{
		"one lane":    nil,
		"eight lanes": {kafkasub.WithConcurrency(8)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := &null{want: records, enough: make(chan struct{})}
				cfg := groupConfig(broker)
				cfg.ID = name + time.Now().String()
				r := run(b, newConsumer(b, cfg, n, append(opts, kafkasub.WithoutDeadLetters())...))
				began := time.Now()
				<-n.enough
				b.ReportMetric(records/time.Since(began).Seconds(), "records/s")
				r.stop(b)
			}
		})
	}
}
