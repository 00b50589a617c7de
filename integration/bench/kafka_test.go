//go:build unix

package bench

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
)

// BenchmarkKafka measures the way from the broker to the committed effect, from the first message
// of a full topic to the last, and what it costs this process. "hand" are the loops that people
// write without any deduplication: one reader of the group, whose records a goroutine for
// each partition handles on a connection of its own. "fetch" is what the client alone can do.
//
// The "cost" runs take the process apart, layer by layer: the client, with a consumer that
// does nothing, with a guard on a store that does nothing, with everything.
func BenchmarkKafka(b *testing.B) {
	brokers := kafkaBrokers(b)
	many, few := backlogSizes(b)
	for _, partitions := range []int{1, 8} {
		k := &kafkaBench{brokers: brokers, partitions: partitions}
		b.Run(fmt.Sprintf("p=%d", partitions), func(b *testing.B) {
			k.prepare(b, many, few)
			g := newGuards(b, k.pool)
			m := newMeter(b)
			m.add("fetch", func(s *span) { k.fetch(b, s) }, many)
			m.add("each", func(s *span) { k.consume(b, s, k.few, counted[tx]{g.each, s}) }, few)
			m.add("batch", func(s *span) { k.consume(b, s, k.many, counted[tx]{g.batch, s}, batched) }, many)
			m.add("qbatch", func(s *span) { k.consume(b, s, k.many, counted[queue]{g.queued, s}, batched) }, many)
			m.add("fence", func(s *span) { k.consume(b, s, k.many, counted[tx]{g.fence(), s}, batched) }, many)
			m.add("hand", func(s *span) { k.byHand(b, s, k.few, k.handleEach, 0) }, few)
			m.add("handlater", func(s *span) { k.byHand(b, s, k.few, k.handleEach, commitInterval) }, few)
			m.add("handbatch", func(s *span) { k.byHand(b, s, k.many, k.handleBatches, 0) }, many)
			m.run()
			m.ratio("each", "each", "hand")
			m.ratio("each", "each", "handlater")
			m.ratio("batch", "batch", "handbatch")
			m.ratio("batch", "qbatch", "handbatch")
			m.ratio("batch", "fence", "handbatch")
			m.ratio("batch", "fence", "batch")
		})
		b.Run(fmt.Sprintf("cost,p=%d", partitions), func(b *testing.B) {
			k.prepare(b, many, few)
			g, null := newGuards(b, k.pool), newNullGuards(b)
			m := newMeter(b)
			m.add("fetch", func(s *span) { k.fetch(b, s) }, many)
			m.add("null-each", func(s *span) { k.consume(b, s, k.many, nullProcessor{s}, buryless) }, many)
			m.add("null-batch", func(s *span) { k.consume(b, s, k.many, nullProcessor{s}, buryless, batched) }, many)
			m.add("guard-each", func(s *span) { k.consume(b, s, k.many, counted[nothing]{null.each, s}, buryless) }, many)
			m.add("guard-batch", func(s *span) { k.consume(b, s, k.many, counted[nothing]{null.batch, s}, buryless, batched) }, many)
			m.add("guard-fence", func(s *span) { k.consume(b, s, k.many, counted[nothing]{null.fence, s}, buryless, batched) }, many)
			m.add("full-each", func(s *span) { k.consume(b, s, k.few, counted[tx]{g.each, s}) }, few)
			m.add("full-batch", func(s *span) { k.consume(b, s, k.many, counted[tx]{g.batch, s}, batched) }, many)
			m.add("full-fence", func(s *span) { k.consume(b, s, k.many, counted[tx]{g.fence(), s}, batched) }, many)
			m.run()
			m.layers("each", "null-each")
			m.layers("batch", "null-batch")
			m.layers("fence", "null-batch")
		})
	}
}

// layers reports what each layer adds to the one below it, and how the CPU time of guard and
// consumer together compares to what PostgreSQL's client takes.
func (m *meter) layers(name, null string) {
	m.b.Helper()
	m.difference(name+"·consumer", null, "fetch")
	m.difference(name+"·guard", "guard-"+name, null)
	ours := m.difference(name+"·consumer+guard", "guard-"+name, "fetch")
	client := m.difference(name+"·postgres", "full-"+name, "guard-"+name)
	m.share(name+"·(consumer+guard)÷postgres", ours, client)
}

const commitInterval = 250 * time.Millisecond // as kafkasub's

var (
	batched  = kafkasub.WithBatch(batchSize, linger)
	buryless = kafkasub.WithoutDeadLetters()
)

// kafkaBrokers returns those of a broker in another process.
func kafkaBrokers(b *testing.B) *servers.Kafka {
	kind := os.Getenv("SEMEL_TEST_KAFKA")
	if os.Getenv("KAFKA_BROKERS") == "" && (kind == "" || kind == string(servers.KfakeBroker)) {
		b.Setenv("KAFKA_BROKERS", startBroker(b, "kafka"))
	}
	k := must(servers.OpenKafka(b.Context()))(b)
	b.Cleanup(func() {
		if err := k.Close(); err != nil {
			b.Error(err)
		}
	})
	return k
}

// topicOf is a topic that was filled once and is read by one group after another.
type topicOf struct {
	name     string
	messages int
}

type kafkaBench struct {
	brokers    *servers.Kafka
	partitions int
	many, few  topicOf
	pool       *pgxpool.Pool
	run        atomic.Int64
}

// prepare makes a database with a connection for each partition, and the topics.
func (k *kafkaBench) prepare(b *testing.B, many, few int) {
	b.Helper()
	k.pool = database(b, k.partitions)
	if k.many.messages == 0 {
		k.many, k.few = k.filled(b, "many", many), k.filled(b, "few", few)
	}
}

func (k *kafkaBench) filled(b *testing.B, name string, n int) topicOf {
	b.Helper()
	topic := topicOf{fmt.Sprintf("bench-%s-%d-%d", name, k.partitions, time.Now().UnixNano()), n}
	if err := k.brokers.CreateTopic(b.Context(), topic.name, k.partitions); err != nil {
		b.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(k.brokers.Brokers()...), kgo.DefaultProduceTopic(topic.name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		client.Produce(b.Context(), &kgo.Record{Partition: int32(i % k.partitions), Key: fmt.Appendf(nil, "account-%06d", i%1000), Value: payload(i)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return topic
}

// group returns a name that no run has had.
func (k *kafkaBench) group() string {
	return fmt.Sprintf("bench-%d-%d-%d", k.partitions, k.run.Add(1), time.Now().UnixNano())
}

// consume runs the library's consumer over the whole topic.
func (k *kafkaBench) consume(b *testing.B, s *span, topic topicOf, p dedup.Processor, opts ...kafkasub.Option) {
	b.Helper()
	clearAll(b, k.pool)
	c, err := kafkasub.New(kafka.ConsumerGroupConfig{ID: k.group(), Brokers: k.brokers.Brokers(), Topics: []string{topic.name}}, p, opts...)
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
		countEffects(b, k.pool, topic.messages)
	}
}
