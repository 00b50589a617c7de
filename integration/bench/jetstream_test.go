//go:build unix

package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
)

// BenchmarkJetStream is [BenchmarkKafka] for a stream that is stored in files. There is no order
// here, so any number of handlers share a stream; each has a connection of its own. The
// library waits for the server's confirmation of every acknowledgement, many of them at a time;
// "hand" waits for one after the other, "handlater" for none.
func BenchmarkJetStream(b *testing.B) {
	n := newNATSBench(b)
	for _, handlers := range []int{1, 8} {
		b.Run(fmt.Sprintf("c=%d", handlers), func(b *testing.B) {
			n.prepare(b, handlers)
			g := newGuards(b, n.pool)
			m := newMeter(b)
			m.add("fetch", func(s *span) { n.fetch(b, s) }, n.many)
			m.add("each", func(s *span) { n.consume(b, s, "few", n.few, counted[tx]{g.each, s}) }, n.few)
			m.add("batch", func(s *span) { n.consume(b, s, "many", n.many, counted[tx]{g.batch, s}, natsBatched) }, n.many)
			m.add("qbatch", func(s *span) { n.consume(b, s, "many", n.many, counted[queue]{g.queued, s}, natsBatched) }, n.many)
			m.add("hand", func(s *span) { n.byHand(b, s, "few", n.few, n.handleEach(confirmed)) }, n.few)
			m.add("handlater", func(s *span) { n.byHand(b, s, "few", n.few, n.handleEach(jetstream.Msg.Ack)) }, n.few)
			m.add("handbatch", func(s *span) { n.byHand(b, s, "many", n.many, n.handleBatches) }, n.many)
			m.run()
			m.ratio("each", "each", "hand")
			m.ratio("each", "each", "handlater")
			m.ratio("batch", "batch", "handbatch")
			m.ratio("batch", "qbatch", "handbatch")
		})
		b.Run(fmt.Sprintf("cost,c=%d", handlers), func(b *testing.B) {
			n.prepare(b, handlers)
			g, null := newGuards(b, n.pool), newNullGuards(b)
			m := newMeter(b)
			m.add("fetch", func(s *span) { n.fetch(b, s) }, n.many)
			m.add("null-each", func(s *span) { n.consume(b, s, "many", n.many, nullProcessor{s}, natsBuryless) }, n.many)
			m.add("null-batch", func(s *span) { n.consume(b, s, "many", n.many, nullProcessor{s}, natsBuryless, natsBatched) }, n.many)
			m.add("guard-each", func(s *span) { n.consume(b, s, "many", n.many, counted[nothing]{null.each, s}, natsBuryless) }, n.many)
			m.add("guard-batch", func(s *span) {
				n.consume(b, s, "many", n.many, counted[nothing]{null.batch, s}, natsBuryless, natsBatched)
			}, n.many)
			m.add("full-each", func(s *span) { n.consume(b, s, "few", n.few, counted[tx]{g.each, s}) }, n.few)
			m.add("full-batch", func(s *span) { n.consume(b, s, "many", n.many, counted[tx]{g.batch, s}, natsBatched) }, n.many)
			m.run()
			m.layers("each", "null-each")
			m.layers("batch", "null-batch")
		})
	}
}

var (
	natsBatched  = natssub.WithBatch(batchSize, linger)
	natsBuryless = natssub.WithoutDeadLetters()
)

// natsBench has two streams in a server in another process, called as their subjects.
type natsBench struct {
	js        jetstream.JetStream
	many, few int
	handlers  int
	pool      *pgxpool.Pool
	run       atomic.Int64
}

func newNATSBench(b *testing.B) *natsBench {
	b.Helper()
	conn := must(nats.Connect(startBroker(b, "nats")))(b)
	b.Cleanup(conn.Close)
	n := &natsBench{js: must(jetstream.New(conn))(b)}
	n.many, n.few = backlogSizes(b)
	n.fill(b, "many", n.many)
	n.fill(b, "few", n.few)
	return n
}

func (n *natsBench) fill(b *testing.B, name string, messages int) {
	b.Helper()
	_, err := n.js.CreateStream(b.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage})
	if err != nil {
		b.Fatal(err)
	}
	for first := 0; first < messages; first += batchSize {
		n.publish(b, name, first, min(batchSize, messages-first))
	}
}

// publish waits until the messages are stored: a server that is slow makes the client give up
// what it publishes ahead.
func (n *natsBench) publish(b *testing.B, name string, first, messages int) {
	b.Helper()
	acks := make([]jetstream.PubAckFuture, messages)
	for i := range acks {
		var err error
		if acks[i], err = n.js.PublishAsync(name, payload(first+i)); err != nil {
			b.Fatal(err)
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			b.Fatal(err)
		case <-time.After(time.Minute):
			b.Fatal("the server does not confirm that a message is stored")
		}
	}
}

// prepare makes a database with a connection for each handler.
func (n *natsBench) prepare(b *testing.B, handlers int) {
	n.handlers, n.pool = handlers, database(b, handlers)
}

// durable is the configuration of one that no run has had.
func (n *natsBench) durable() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: fmt.Sprintf("bench-%d", n.run.Add(1)), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: time.Minute, MaxAckPending: 4 * batchSize * n.handlers,
	}
}

// consume runs the library's consumer over the whole stream.
func (n *natsBench) consume(b *testing.B, s *span, stream string, messages int, p dedup.Processor, opts ...natssub.Option) {
	b.Helper()
	clearAll(b, n.pool)
	durable := n.durable()
	c, err := natssub.New(n.js, stream, durable, p, append(opts, natssub.WithConcurrency(n.handlers))...)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s.await(b, ended)
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	switch p.(type) {
	case counted[tx], counted[queue]:
		countEffects(b, n.pool, messages)
	}
	n.forget(b, stream, durable.Durable)
}

func (n *natsBench) forget(b *testing.B, stream, durable string) {
	b.Helper()
	if err := n.js.DeleteConsumer(context.Background(), stream, durable); err != nil {
		b.Error(err)
	}
}
