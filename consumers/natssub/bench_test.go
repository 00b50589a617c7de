package natssub_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

// BenchmarkConsume measures what this package costs: the processor does nothing. One
// operation is one message, acknowledged and confirmed. "serial" is what acknowledging one
// after the other would give, "unconfirmed" what the client alone can do.
func BenchmarkConsume(b *testing.B) {
	for _, bench := range []struct {
		name string
		opts []natssub.Option
	}{
		{"single", nil},
		{"prefetch=512", []natssub.Option{natssub.WithPrefetch(512)}},
		{"order", []natssub.Option{natssub.WithOrder()}},
		{"batch=100", []natssub.Option{natssub.WithBatch(100, 10*time.Millisecond)}},
		{"batch=250", []natssub.Option{natssub.WithBatch(250, 10*time.Millisecond)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			js := filled(b)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, idle{}, bench.opts...)
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			emptied(b, js)
			b.StopTimer()
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("serial", func(b *testing.B) {
		raw(b, func(m jetstream.Msg) error { return m.DoubleAck(context.Background()) })
	})
	b.Run("unconfirmed", func(b *testing.B) { raw(b, jetstream.Msg.Ack) })
}

func raw(b *testing.B, ack func(jetstream.Msg) error) {
	js := filled(b)
	c, err := js.CreateConsumer(context.Background(), stream, jetstream.ConsumerConfig{Durable: durable})
	if err != nil {
		b.Fatal(err)
	}
	consuming, err := c.Consume(func(m jetstream.Msg) {
		if err := ack(m); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	emptied(b, js)
	b.StopTimer()
	consuming.Stop()
	<-consuming.Closed()
}

// idle is a processor that finds everything done.
type idle struct{}

func (idle) Process(context.Context, dedup.Message) dedup.Result { return applied }

func (idle) ProcessBatch(_ context.Context, ms []dedup.Message) []dedup.Result {
	results := make([]dedup.Result, len(ms))
	for i := range results {
		results[i] = applied
	}
	return results
}

func (i idle) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return i.ProcessBatch(ctx, ms)
}

func (idle) Bury(context.Context, dedup.Message, error) dedup.Result {
	return dedup.Result{Outcome: dedup.Buried}
}

// filled returns a server whose stream holds b.N messages of 256 bytes.
func filled(b *testing.B) jetstream.JetStream {
	b.Helper()
	nc, err := nats.Connect(servertest.NATS(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}}); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 256)
	for range b.N {
		if _, err := js.PublishAsync("orders.new", body, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		b.Fatal("messages not stored")
	}
	b.ResetTimer()
	return js
}

// emptied waits until everything is acknowledged.
func emptied(b *testing.B, js jetstream.JetStream) {
	b.Helper()
	for {
		c, err := js.Consumer(context.Background(), stream, durable)
		if err == nil && c.CachedInfo().AckFloor.Stream == uint64(b.N) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
