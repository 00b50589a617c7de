package servers_test

import (
	"errors"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/semel-dev/semel/integration/servers/servertest"
)

func TestKfakeServesTopicsThatWereSeededOrCreated(t *testing.T) {
	t.Parallel()
	broker := servertest.Kfake(t, kfake.SeedTopics(2, "seeded"))
	if err := broker.CreateTopic(t.Context(), "created", 3); err != nil {
		t.Fatal(err)
	}
	if err := broker.CreateTopic(t.Context(), "created", 3); !errors.Is(err, kafka.TopicAlreadyExists) {
		t.Errorf("creating a topic twice: %v, want %v", err, kafka.TopicAlreadyExists)
	}
	conn, err := kafka.DialContext(t.Context(), "tcp", broker.Brokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for topic, want := range map[string]int{"seeded": 2, "created": 3} {
		partitions, err := conn.ReadPartitions(topic)
		if err != nil || len(partitions) != want {
			t.Errorf("topic %s: %d partitions, error %v; want %d", topic, len(partitions), err, want)
		}
	}
	if _, err := conn.ReadPartitions("unknown"); !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("an unknown topic: %v, want %v", err, kafka.UnknownTopicOrPartition)
	}
}
