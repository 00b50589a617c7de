//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/integration/servers"
)

// receiptLanes is how many partitions each topic of events has.
const receiptLanes = 4

type kafkaBroker struct {
	server    *servers.Kafka
	direct    *kafka.Client // past all proxies
	producer  *kafka.Client
	transport *kafka.Transport // of the producer
}

func startKafka(t *testing.T, groups []*group) *kafkaBroker {
	t.Helper()
	k := must(servers.OpenKafka(t.Context()))(t)
	t.Cleanup(func() { check(t, k.Close()) })
	check(t, k.CreateTopic(t.Context(), kafkaTopic, lanes))
	for _, g := range groups {
		check(t, k.CreateTopic(t.Context(), g.receipts(), receiptLanes))
	}
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkaBroker{server: k, direct: &kafka.Client{Addr: kafka.TCP(k.Brokers()...), Transport: transport, Timeout: 10 * time.Second}}
}

func (b *kafkaBroker) name() string      { return "kafka" }
func (b *kafkaBroker) addr() string      { return b.server.Brokers()[0] }
func (b *kafkaBroker) brokers() []string { return b.server.Brokers() }

func (b *kafkaBroker) logs() string {
	if a := b.server.Apache(); a != nil {
		return a.Logs()
	}
	return ""
}

func (b *kafkaBroker) through(addr string) error {
	b.transport = &kafka.Transport{DialTimeout: 3 * time.Second, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	b.producer = &kafka.Client{Addr: kafka.TCP(b.brokers()...), Transport: b.transport, Timeout: 3 * time.Second}
	return nil
}

// produce makes one request, which the broker takes as a whole or not at all.
func (b *kafkaBroker) produce(ctx context.Context, lane int, ms []message) ([]place, error) {
	records := make([]kafka.Record, len(ms))
	for i, m := range ms {
		records[i] = kafka.Record{Time: time.Now(), Key: kafka.NewBytes([]byte(m.Key)), Value: kafka.NewBytes(m.body())}
		if m.Kind != nameless {
			records[i].Headers = []kafka.Header{{Key: idHeader, Value: []byte(m.ID)}}
		}
	}
	res, err := b.producer.Produce(ctx, &kafka.ProduceRequest{
		Topic: kafkaTopic, Partition: lane, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		b.transport.CloseIdleConnections()
		return nil, err
	}
	places := make([]place, len(ms))
	for i := range ms {
		places[i] = place{lane, res.BaseOffset + int64(i)}
	}
	return places, nil
}

// restart kills an Apache broker. A kfake broker, whose log would be gone, only disappears.
func (b *kafkaBroker) restart(ctx context.Context, w *world, down time.Duration) error {
	if a := b.server.Apache(); a != nil {
		if err := a.Kill(); err != nil {
			return err
		}
		pause(ctx, down)
		return a.Restart(ctx)
	}
	for _, p := range w.brokerProxies() {
		p.Refuse()
		defer p.Admit()
	}
	pause(ctx, down)
	return nil
}

// reset commits the first offset for the group, which the broker allows while it has no members.
func (b *kafkaBroker) reset(ctx context.Context, w *world, g *group) error {
	defer w.holdConsumers(g)()
	return until(ctx, func(ctx context.Context) error {
		if err := b.leave(ctx, g, everybody); err != nil {
			return err
		}
		offsets := make([]kafka.OffsetCommit, lanes)
		for i := range offsets {
			offsets[i].Partition = i
		}
		res, err := b.direct.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
			GroupID: g.name, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{kafkaTopic: offsets},
		})
		if err != nil {
			return err
		}
		for _, p := range res.Topics[kafkaTopic] {
			err = errors.Join(err, p.Error)
		}
		return err
	})
}

func (b *kafkaBroker) describe(ctx context.Context, g *group) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	described, err := b.direct.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{g.name}})
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, d := range described.Groups {
		text += d.GroupState
		for _, m := range d.Members {
			text += fmt.Sprintf(" %s(%s):%v", m.ClientID, m.MemberID, m.MemberAssignments.Topics)
		}
	}
	return text
}

func (b *kafkaBroker) forget(ctx context.Context, g *group, child string) error {
	return b.leave(ctx, g, func(m kafka.DescribeGroupsResponseMember) bool { return m.ClientID == child })
}

func everybody(kafka.DescribeGroupsResponseMember) bool { return true }

// leave takes members out of the group, as the end of their sessions would.
func (b *kafkaBroker) leave(ctx context.Context, g *group, who func(kafka.DescribeGroupsResponseMember) bool) error {
	described, err := b.direct.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{g.name}})
	if err != nil {
		return err
	}
	for _, d := range described.Groups {
		for _, m := range d.Members {
			if !who(m) {
				continue
			}
			_, err := b.direct.LeaveGroup(ctx, &kafka.LeaveGroupRequest{
				GroupID: g.name, Members: []kafka.LeaveGroupRequestMember{{ID: m.MemberID}},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *kafkaBroker) lag(ctx context.Context, g *group) (int, error) {
	partitions := make([]int, lanes)
	for i := range partitions {
		partitions[i] = i
	}
	ends, err := b.ends(ctx, kafkaTopic, lanes)
	if err != nil {
		return 0, err
	}
	res, err := b.direct.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: g.name, Topics: map[string][]int{kafkaTopic: partitions}})
	if err != nil {
		return 0, err
	}
	lag := 0
	for _, p := range res.Topics[kafkaTopic] {
		err = errors.Join(err, p.Error)
		lag += int(ends[p.Partition] - max(p.CommittedOffset, 0))
	}
	return lag, errors.Join(res.Error, err)
}

func (b *kafkaBroker) ends(ctx context.Context, topic string, partitions int) (map[int]int64, error) {
	var want []kafka.OffsetRequest
	for p := range partitions {
		want = append(want, kafka.LastOffsetOf(p))
	}
	res, err := b.direct.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: want}})
	if err != nil {
		return nil, err
	}
	ends := map[int]int64{}
	for _, p := range res.Topics[topic] {
		err = errors.Join(err, p.Error)
		ends[p.Partition] = p.LastOffset
	}
	return ends, err
}
