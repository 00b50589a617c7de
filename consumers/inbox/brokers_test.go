package inbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

const (
	topic   = "orders"
	session = 3200 * time.Millisecond
)

func produce(t testing.TB, b *servers.Kfake, partition int32, key, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(key + value)}}}
	if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committed is the group's offset of partition 0.
func committed(t testing.TB, b *servers.Kfake) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.MaxVersions(kversion.V2_7_0()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = "billing"
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			return p.Offset
		}
	}
	return -1
}

// One message is worked on for several session timeouts, and the group does not notice: nobody joins
// again, every offset is committed, and everything behind it is done.
func TestWorkLongerThanTheSessionDoesNotDisturbTheGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := servertest.Kfake(t, kfake.SeedTopics(1, topic), kfake.GroupMinSessionTimeout(time.Second))
	var joins atomic.Int64
	b.Cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		joins.Add(1)
		return nil, nil, false
	})
	began := make(chan struct{}, 10)
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if string(m.Key) == "long" {
			began <- struct{}{}
			if _, err := tx.Exec(ctx, "select pg_sleep($1)", 3*session.Seconds()); err != nil {
				return err
			}
		}
		return effect(ctx, tx, m)
	})
	c, err := kafkasub.New(groupConfig(b.Brokers()[0]), in.Intake(), kafkasub.WithCommitInterval(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	start(t, in)
	start(t, c)
	produce(t, b, 0, "long", "0")
	receive(t, began)
	joined := joins.Load()
	for i := range 30 {
		produce(t, b, 0, fmt.Sprint("k", i%5), fmt.Sprint(i/5))
	}
	eventually(t, "the others are done and all is committed", func() bool {
		return w.count("select count(*) from effects") == 30 && committed(t, b) == 31
	})
	w.want("long")
	w.empty()
	w.want("long", "0")
	for k := range 5 {
		w.want(fmt.Sprint("k", k), numbered(6)...)
	}
	if n := joins.Load(); n != joined {
		t.Errorf("the group was joined %d times more", n-joined)
	}
}

// One message is worked on for several ack waits and delivered once; its subject is the ordering key.
func TestWorkLongerThanTheAckWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc, err := nats.Connect(servertest.NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	const wait = time.Second
	began := make(chan struct{}, 10)
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		m.Key = []byte(m.Topic)
		if m.Topic == "orders.long" && string(m.Body) == "0" {
			began <- struct{}{}
			if _, err := tx.Exec(ctx, "select pg_sleep($1)", 4*wait.Seconds()); err != nil {
				return err
			}
		}
		return effect(ctx, tx, m)
	}, inbox.WithOrder(func(m dedup.Message) []byte { return []byte(m.Topic) }))
	c, err := natssub.New(js, "ORDERS", jetstream.ConsumerConfig{Durable: "billing", AckWait: wait}, in.Intake(), natssub.WithConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	start(t, in)
	start(t, c)
	publish := func(subject, body string) {
		msg := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{"id": {subject + body}}}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	publish("orders.long", "0")
	receive(t, began)
	for i := range 10 {
		publish("orders.long", fmt.Sprint(i+1))
		publish("orders.short", fmt.Sprint(i))
	}
	eventually(t, "the others are done and all is acknowledged", func() bool {
		cons, err := stream.Consumer(t.Context(), "billing")
		return err == nil && cons.CachedInfo().AckFloor.Stream == 21 && w.count("select count(*) from effects") == 10
	})
	w.want("orders.long")
	w.empty()
	w.want("orders.long", numbered(11)...)
	w.want("orders.short", numbered(10)...)
	cons, err := stream.Consumer(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	if info := cons.CachedInfo(); info.NumRedelivered != 0 || info.Delivered.Consumer != 21 {
		t.Errorf("%d deliveries, %d of them again", info.Delivered.Consumer, info.NumRedelivered)
	}
}
