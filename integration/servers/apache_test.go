package servers_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/integration/servers"
)

func startApacheKafka(t *testing.T) *servers.ApacheKafka {
	t.Helper()
	if os.Getenv("SEMEL_TEST_KAFKA") != "apache" {
		t.Skip("starts Apache Kafka on a JVM; run it with SEMEL_TEST_KAFKA=apache, with Java 17 and Maven installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	k, err := servers.StartApacheKafka(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func TestApacheKafkaKeepsMessagesAndOffsetsOverKillAndRestart(t *testing.T) {
	t.Parallel()
	k := startApacheKafka(t)
	b := newBroker(t, k.Brokers())
	for _, down := range []struct {
		name string
		do   func() error
	}{
		{"killed", k.Kill},
		{"shut down by Restart", func() error { return nil }},
	} {
		b.topic += "-" + strings.ReplaceAll(down.name, " ", "-")
		if err := k.CreateTopic(t.Context(), b.topic, partitions); err != nil {
			t.Fatalf("%s: %v", down.name, err)
		}
		b.write(t, 2*partitions)
		member := b.member(t, b.topic)
		g := b.next(t, member, partitions)
		if err := g.CommitOffsets(map[string]map[int]int64{b.topic: {0: 1, 1: 2}}); err != nil {
			t.Fatalf("%s: %v", down.name, err)
		}
		before := k.Brokers()

		if err := down.do(); err != nil {
			t.Fatalf("%s: %v", down.name, err)
		}
		if err := k.Restart(t.Context()); err != nil {
			t.Fatalf("%s: %v", down.name, err)
		}

		if !slices.Equal(k.Brokers(), before) {
			t.Errorf("%s: brokers %v, want %v as before", down.name, k.Brokers(), before)
		}
		for p := range partitions {
			b.read(t, p, 2)
		}
		b.next(t, member, partitions) // The same member finds its way back.
		within(t, func(ctx context.Context) error {
			answer, err := b.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: b.topic, Topics: map[string][]int{b.topic: {0}}})
			if err != nil {
				return err
			}
			return answer.Error
		})
		if got := b.committed(t); got != 3 {
			t.Errorf("%s: committed offsets add up to %d, want 3", down.name, got)
		}
	}
}

func TestApacheKafkaMakesNoTopicsByItself(t *testing.T) {
	t.Parallel()
	k := startApacheKafka(t)
	w := &kafka.Writer{Addr: kafka.TCP(k.Brokers()...), Topic: "nobody-made-it", AllowAutoTopicCreation: true, MaxAttempts: 3}
	defer w.Close()
	if err := w.WriteMessages(t.Context(), kafka.Message{}); err == nil {
		t.Error("a topic was made by a write")
	}
}

func TestApacheKafkaRefusesWhatIsNotARelease(t *testing.T) {
	t.Parallel()
	_, err := servers.StartApacheKafka(t.Context(), servers.WithKafkaVersion("4.x"))
	if err == nil || !strings.Contains(err.Error(), `servers: start apache kafka: version "4.x"`) {
		t.Errorf("version 4.x: %v", err)
	}
}
