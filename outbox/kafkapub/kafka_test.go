package kafkapub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker starts a cluster with the topics "a" and "b" of four partitions each.
func broker(t *testing.T, opts ...kfake.Opt) *servers.Kfake {
	t.Helper()
	return servertest.Kfake(t, append([]kfake.Opt{kfake.SeedTopics(4, "a", "b")}, opts...)...)
}

// publisher returns one with a Writer of one attempt, so that a test decides what fails.
func publisher(t *testing.T, b *servers.Kfake, change func(*kafka.Writer), opts ...kafkapub.Option) *kafkapub.Publisher {
	t.Helper()
	w := kafkapub.NewWriter(b.Brokers()...)
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	w.Transport = transport
	w.MaxAttempts = 1
	if change != nil {
		change(w)
	}
	p, err := kafkapub.New(w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// event makes an event whose payload names it.
func event(topic, key, payload string) store.Event {
	e := store.Event{ID: store.NewID(), Destination: "kafka", Topic: topic, Payload: []byte(payload)}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

// records returns all that a topic holds, partition after partition.
func records(t *testing.T, b *servers.Kfake, topic string) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	want := ends(ctx, t, cl, topic)
	var all []*kgo.Record
	for int64(len(all)) < want {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		all = append(all, fetches.Records()...)
	}
	byPartition := make([][]*kgo.Record, 4)
	for _, r := range all {
		byPartition[r.Partition] = append(byPartition[r.Partition], r)
	}
	all = all[:0]
	for _, rs := range byPartition {
		all = append(all, rs...)
	}
	return all
}

func ends(ctx context.Context, t *testing.T, cl *kgo.Client, topic string) (total int64) {
	t.Helper()
	for partition := range int32(4) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, -1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic, rt.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{p}
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.Topics = -1, []kmsg.ListOffsetsRequestTopic{rt}
		for _, shard := range cl.RequestSharded(ctx, req) {
			if shard.Err != nil {
				t.Fatal(shard.Err)
			}
			for _, rt := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
				for _, rp := range rt.Partitions {
					total += rp.Offset
				}
			}
		}
	}
	return total
}

func payloads(rs []*kgo.Record) []string {
	var all []string
	for _, r := range rs {
		all = append(all, string(r.Value))
	}
	return all
}

func numbered(topic, key string, n int) []store.Event {
	var events []store.Event
	for i := range n {
		events = append(events, event(topic, key, fmt.Sprintf("%s%02d", key, i)))
	}
	return events
}

// hold makes the broker keep every produce request until release is called. Held is
// signalled for each.
func hold(b *servers.Kfake) (held <-chan struct{}, release func()) {
	arrived, open := make(chan struct{}, 100), make(chan struct{})
	b.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		arrived <- struct{}{}
		b.Cluster.SleepControl(func() { <-open })
		return nil, nil, false
	})
	return arrived, func() { close(open) }
}
