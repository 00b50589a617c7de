package servers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

// This test is the list of what kafka-go asks of a broker on behalf of this project. It runs against kfake, against
// Apache Kafka with SEMEL_TEST_KAFKA=apache (of the version SEMEL_TEST_KAFKA_VERSION), or against KAFKA_BROKERS.
func TestKafkaServesWhatThisProjectAsksOfABroker(t *testing.T) {
	t.Parallel()
	k := servertest.Kafka(t)
	for _, check := range []struct {
		name string
		run  func(*testing.T, broker)
	}{
		{"a writer's messages are read back from their partitions", checkWriter},
		{"compressed messages are read back", checkCompression},
		{"a topic that is made again starts at offset 0", checkTopicAgain},
		{"the log's ends can be asked for", checkListOffsets},
		{"a group commits offsets and its next generation gets them", checkGroupCommit},
		{"a group survives on heartbeats", checkHeartbeats},
		{"a second member gets half of the partitions", checkRebalance},
		{"a stale generation cannot commit", checkStaleCommit},
		{"a group reader fetches and commits", checkGroupReader},
		{"committed offsets can be read from outside", checkOffsetFetch},
		{"groups can be described", checkDescribeGroups},
	} {
		t.Run(check.name, func(t *testing.T) {
			t.Parallel()
			check.run(t, newBroker(t, k.Brokers()))
		})
	}
}

// broker is a Kafka with a topic of four partitions and a client.
type broker struct {
	addrs  []string
	topic  string
	client *kafka.Client
}

const partitions = 4

func newBroker(t *testing.T, addrs []string) broker {
	t.Helper()
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	b := broker{
		addrs:  addrs,
		topic:  fmt.Sprintf("topic-%d", time.Now().UnixNano()),
		client: &kafka.Client{Addr: kafka.TCP(addrs...), Transport: transport},
	}
	b.create(t)
	return b
}

func (b broker) create(t *testing.T) {
	t.Helper()
	made, err := b.client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: b.topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err == nil {
		err = made.Errors[b.topic]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// write writes messages with their number as key and value, round robin over the partitions, and waits for all replicas.
func (b broker) write(t *testing.T, n int, with ...kafka.Compression) {
	t.Helper()
	w := &kafka.Writer{
		Addr: b.client.Addr, Topic: b.topic, Transport: b.client.Transport,
		RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Balancer: &kafka.RoundRobin{},
	}
	if len(with) > 0 {
		w.Compression = with[0]
	}
	var messages []kafka.Message
	for i := range n {
		text := fmt.Append(nil, i)
		messages = append(messages, kafka.Message{Key: text, Value: text, Headers: []kafka.Header{{Key: "n", Value: text}}})
	}
	// A topic that was just made is not known everywhere yet.
	within(t, func(ctx context.Context) error { return w.WriteMessages(ctx, messages...) })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// read returns the values of n messages of one partition.
func (b broker) read(t *testing.T, partition, n int) (values []string) {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: b.addrs, Topic: b.topic, Partition: partition, MaxWait: 100 * time.Millisecond})
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range n {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			t.Fatalf("fetch message %d of partition %d: %v", i, partition, err)
		}
		if m.Offset != int64(i) || string(m.Key) != string(m.Value) || len(m.Headers) != 1 || m.Time.IsZero() {
			t.Fatalf("message %d of partition %d: %+v", i, partition, m)
		}
		values = append(values, string(m.Value))
	}
	return values
}

// member is a consumer group's member that joins at once and beats fast.
func (b broker) member(t *testing.T, group string) *kafka.ConsumerGroup {
	t.Helper()
	member, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: b.addrs, Topics: []string{b.topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second,
		JoinGroupBackoff: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { member.Close() })
	return member
}

// next waits for the member's next generation with so many partitions, past those with another number.
func (b broker) next(t *testing.T, member *kafka.ConsumerGroup, want int) *kafka.Generation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var last error
	for {
		g, err := member.Next(ctx)
		if ctx.Err() != nil {
			t.Fatalf("no generation with %d partitions: %v; last error: %v", want, err, last)
		}
		if err != nil {
			last = err
			continue
		}
		if len(g.Assignments[b.topic]) == want {
			return g
		}
		g.Start(func(ctx context.Context) { <-ctx.Done() })
	}
}

// within repeats what fails at first, for a while.
func within(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func checkWriter(t *testing.T, b broker) {
	b.write(t, 8)
	var all []string
	for p := range partitions {
		all = append(all, b.read(t, p, 2)...)
	}
	slices.Sort(all)
	if want := []string{"0", "1", "2", "3", "4", "5", "6", "7"}; !slices.Equal(all, want) {
		t.Errorf("read %v, want %v", all, want)
	}
}

func checkCompression(t *testing.T, b broker) {
	for i, codec := range []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		b.write(t, partitions, codec)
		for p := range partitions {
			b.read(t, p, i+1)
		}
	}
}

func checkTopicAgain(t *testing.T, b broker) {
	b.write(t, partitions)
	deleted, err := b.client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{b.topic}})
	if err == nil {
		err = deleted.Errors[b.topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	within(t, func(ctx context.Context) error {
		made, err := b.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
			Topics: []kafka.TopicConfig{{Topic: b.topic, NumPartitions: partitions, ReplicationFactor: 1}},
		})
		if err != nil {
			return err
		}
		return made.Errors[b.topic]
	})
	b.write(t, partitions)
	for p := range partitions {
		b.read(t, p, 1)
	}
}

func checkListOffsets(t *testing.T, b broker) {
	b.write(t, 2*partitions)
	answer, err := b.client.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		b.topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := answer.Topics[b.topic][0]
	if got.Error != nil || got.FirstOffset != 0 || got.LastOffset != 2 {
		t.Errorf("ends of partition 0: %+v, want 0 and 2", got)
	}
}

func checkGroupCommit(t *testing.T, b broker) {
	b.write(t, 2*partitions)
	first := b.member(t, b.topic)
	g := b.next(t, first, partitions)
	if err := g.CommitOffsets(map[string]map[int]int64{b.topic: {0: 1, 1: 2}}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatalf("leave: %v", err)
	}

	again := b.next(t, b.member(t, b.topic), partitions)

	want := map[int]int64{0: 1, 1: 2, 2: kafka.FirstOffset, 3: kafka.FirstOffset}
	for _, p := range again.Assignments[b.topic] {
		if p.Offset != want[p.ID] {
			t.Errorf("partition %d starts at %d, want %d", p.ID, p.Offset, want[p.ID])
		}
	}
}

func checkHeartbeats(t *testing.T, b broker) {
	g := b.next(t, b.member(t, b.topic), partitions)
	ended := make(chan struct{})
	g.Start(func(ctx context.Context) {
		<-ctx.Done()
		close(ended)
	})
	select {
	case <-ended:
		t.Fatal("the generation ended within twice the session timeout")
	case <-time.After(12 * time.Second):
	}
	if err := g.CommitOffsets(map[string]map[int]int64{b.topic: {0: 1}}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// checkRebalance also sees that the group is one again when a member leaves.
func checkRebalance(t *testing.T, b broker) {
	one := b.member(t, b.topic)
	g := b.next(t, one, partitions)
	revoked := make(chan struct{})
	g.Start(func(ctx context.Context) {
		<-ctx.Done()
		close(revoked)
	})
	two := b.member(t, b.topic)
	joined := make(chan *kafka.Generation, 1)
	go func() {
		g, err := two.Next(t.Context())
		if err != nil {
			t.Error(err)
		}
		joined <- g
	}()
	<-revoked
	half := b.next(t, one, partitions/2)
	half.Start(func(ctx context.Context) { <-ctx.Done() })
	other := <-joined
	if t.Failed() {
		return
	}
	var all []int
	for _, p := range slices.Concat(half.Assignments[b.topic], other.Assignments[b.topic]) {
		all = append(all, p.ID)
	}
	slices.Sort(all)
	if want := []int{0, 1, 2, 3}; !slices.Equal(all, want) {
		t.Errorf("the two members have partitions %v, want %v", all, want)
	}
	if err := two.Close(); err != nil {
		t.Fatalf("leave: %v", err)
	}
	b.next(t, one, partitions)
}

func checkStaleCommit(t *testing.T, b broker) {
	one := b.member(t, b.topic)
	stale := b.next(t, one, partitions)
	refused := make(chan error, 1)
	stale.Start(func(ctx context.Context) {
		<-ctx.Done() // The member's connection stays, and it does not join again, until this function has returned.
		accepted := 0
		deadline := time.Now().Add(20 * time.Second)
		for time.Now().Before(deadline) {
			err := stale.CommitOffsets(map[string]map[int]int64{b.topic: {0: 1}})
			if err != nil {
				t.Logf("the group rebalanced, %d commits of the old generation were accepted, then: %v", accepted, err)
				refused <- err
				return
			}
			accepted++
		}
		refused <- nil
	})
	b.next(t, b.member(t, b.topic), partitions)
	if err := <-refused; err == nil {
		t.Error("commits of the old generation were accepted for 20 seconds")
	}
}

func checkGroupReader(t *testing.T, b broker) {
	b.write(t, 2*partitions)
	for range 2 { // The second reader goes on where the first one stopped.
		r := kafka.NewReader(kafka.ReaderConfig{
			Brokers: b.addrs, GroupID: b.topic, Topic: b.topic, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond,
			HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond,
		})
		for range partitions {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			m, err := r.FetchMessage(ctx)
			if err == nil {
				err = r.CommitMessages(ctx, m)
			}
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.committed(t); got != 2*partitions {
		t.Errorf("committed offsets add up to %d, want %d", got, 2*partitions)
	}
}

// committed is the sum of the offsets that the group of the topic's name has committed.
func (b broker) committed(t *testing.T) (sum int) {
	t.Helper()
	answer, err := b.client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{
		GroupID: b.topic, Topics: map[string][]int{b.topic: {0, 1, 2, 3}},
	})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range answer.Topics[b.topic] {
		if p.Error != nil {
			t.Fatal(p.Error)
		}
		sum += int(max(p.CommittedOffset, 0))
	}
	return sum
}

func checkOffsetFetch(t *testing.T, b broker) {
	g := b.next(t, b.member(t, b.topic), partitions)
	if err := g.CommitOffsets(map[string]map[int]int64{b.topic: {0: 5, 3: 7}}); err != nil {
		t.Fatal(err)
	}
	if got := b.committed(t); got != 12 {
		t.Errorf("committed offsets add up to %d, want 12", got)
	}
}

func checkDescribeGroups(t *testing.T, b broker) {
	b.next(t, b.member(t, b.topic), partitions)
	within(t, func(ctx context.Context) error {
		answer, err := b.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{b.topic}})
		if err != nil {
			return err
		}
		if g := answer.Groups[0]; g.Error != nil || g.GroupState != "Stable" || len(g.Members) != 1 {
			return fmt.Errorf("group %+v, want a stable one with one member", g)
		}
		return nil
	})
}

func TestOpenKafkaSaysWhichKindItIs(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "")
	t.Setenv("SEMEL_TEST_KAFKA", "")
	own, err := servers.OpenKafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if own.Kind() != servers.KfakeBroker || own.Kfake() == nil || own.Apache() != nil {
		t.Errorf("without the environment: kind %s, want %s", own.Kind(), servers.KfakeBroker)
	}

	t.Setenv("KAFKA_BROKERS", own.Brokers()[0])
	external, err := servers.OpenKafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if external.Kind() != servers.ExternalKafka || !slices.Equal(external.Brokers(), own.Brokers()) {
		t.Errorf("with KAFKA_BROKERS: kind %s at %v", external.Kind(), external.Brokers())
	}
	if err := external.Close(); err != nil {
		t.Fatal(err)
	}
	if err := own.CreateTopic(t.Context(), "still-there", 1); err != nil {
		t.Errorf("after closing what the environment named: %v", err)
	}

	t.Setenv("KAFKA_BROKERS", "")
	t.Setenv("SEMEL_TEST_KAFKA", "redpanda")
	if _, err := servers.OpenKafka(t.Context()); err == nil {
		t.Error("SEMEL_TEST_KAFKA with an unknown kind was not refused")
	}
}
