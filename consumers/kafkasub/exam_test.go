package kafkasub_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/consumertest"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
)

func TestExam(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		order consumertest.Order
		lanes int
		opts  []kafkasub.Option
	}{
		{"by default", consumertest.InOrder, 0, nil},
		{"WithConcurrency", consumertest.PerKey, 8, []kafkasub.Option{kafkasub.WithConcurrency(8)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			consumertest.TestConsumer(t, consumertest.Harness{
				New:      func(t *testing.T) consumertest.Place { return examPlace(t, c.opts) },
				Order:    c.order,
				Lanes:    c.lanes,
				NotClean: kafkasub.ErrNotClean,
				Overtime: 12 * time.Second,
				Seen:     asKafkaGoHasIt,
				Lacks: map[consumertest.Ability]string{
					consumertest.Restarting: "kfake keeps its log in memory",
				},
			})
		})
	}
}

// asKafkaGoHasIt: whatever is empty is nil.
func asKafkaGoHasIt(m consumertest.Message) consumertest.Message {
	headers := m.Headers
	m.Headers = nil
	for _, h := range headers {
		m.Headers = append(m.Headers, dedup.Header{Key: h.Key, Value: nilIfEmpty(h.Value)})
	}
	m.Key, m.Body = nilIfEmpty(m.Key), nilIfEmpty(m.Body)
	return m
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func examPlace(t *testing.T, opts []kafkasub.Option) consumertest.Place {
	b := startBroker(t, 1, kfake.GroupMinSessionTimeout(time.Second))
	return consumertest.Place{
		Publish: func(ms ...consumertest.Message) {
			t.Helper()
			var rs []*kgo.Record
			for _, m := range ms {
				r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Body}
				for _, h := range m.Headers {
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
				}
				rs = append(rs, r)
			}
			produceRecords(t, b, rs...)
		},
		Left: func() int { return int(logEnd(t, b) - max(committed(t, b, 0), 0)) },
		Open: func(p dedup.Processor, s consumertest.Settings) (consumertest.Consumer, error) {
			return examConsumer(t, b, p, s, opts)
		},
		Remake: func() {
			deleteTopic(t, b)
			makeTopic(t, b, 1)
		},
	}
}

// logEnd is the offset behind the last record.
func logEnd(t *testing.T, b *servers.Kfake) int64 {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return request[*kmsg.ListOffsetsResponse](t, b, req).Topics[0].Partitions[0].Offset
}

// examConsumer reaches the broker through a proxy.
func examConsumer(t *testing.T, b *servers.Kfake, p dedup.Processor, s consumertest.Settings, more []kafkasub.Option) (consumertest.Consumer, error) {
	t.Helper()
	proxy, err := servers.StartProxy(b.Brokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() }) // A killed one is closed twice.
	cfg := groupConfig(b)
	cfg.SessionTimeout, cfg.RebalanceTimeout = 6*time.Second, 6*time.Second
	cfg.Dialer = &kafka.Dialer{Timeout: 5 * time.Second, DialFunc: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxy.Addr())
	}}
	_, log := newLogBook(t)
	opts := []kafkasub.Option{kafkasub.WithPolicy(s.Policy), kafkasub.WithCommitInterval(10 * time.Millisecond), log}
	if s.Drain < 3*time.Second { // a longer one has to fit into the timeouts of the group
		opts = append(opts, kafkasub.WithDrain(s.Drain))
	}
	if s.WithoutDeadLetters {
		opts = append(opts, kafkasub.WithoutDeadLetters())
	}
	if s.Batch > 0 {
		opts = append(opts, kafkasub.WithBatch(s.Batch, s.Linger))
	}
	c, err := kafkasub.New(cfg, p, append(opts, more...)...)
	if err != nil {
		return consumertest.Consumer{}, err
	}
	return consumertest.Consumer{
		Run: c.Run, Freeze: proxy.Freeze, Thaw: proxy.Thaw,
		Kill: func() { _ = proxy.Close() },
	}, nil
}
