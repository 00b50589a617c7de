package servers

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go"
)

// KafkaKind says what a [Kafka] is.
type KafkaKind string

const (
	ExternalKafka KafkaKind = "external" // Brokers that the environment named.
	ApacheBroker  KafkaKind = "apache"   // An Apache Kafka broker on a JVM, started here.
	KfakeBroker   KafkaKind = "kfake"    // A kfake broker inside this process.
)

// Kafka is a Kafka cluster of one of three kinds.
type Kafka struct {
	kind    KafkaKind
	brokers []string
	apache  *ApacheKafka
	kfake   *Kfake
}

// OpenKafka returns the brokers that KAFKA_BROKERS names (host:port, separated by commas) after one question to them.
// When that is empty and SEMEL_TEST_KAFKA is "apache" it starts an Apache Kafka broker; that it cannot be started is an
// error and never a reason to take another kind. With neither variable it starts a kfake broker. Topics are made with
// [Kafka.CreateTopic]: what started here does not make them by itself. The caller ends it with [Kafka.Close].
func OpenKafka(ctx context.Context) (*Kafka, error) {
	if list := os.Getenv("KAFKA_BROKERS"); list != "" {
		brokers := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
		err := askBroker(ctx, brokers, func(conn *kafka.Conn) error { _, err := conn.Brokers(); return err })
		if err != nil {
			return nil, fmt.Errorf("servers: open the kafka of KAFKA_BROKERS: %w", err)
		}
		return &Kafka{kind: ExternalKafka, brokers: brokers}, nil
	}
	switch wanted := os.Getenv("SEMEL_TEST_KAFKA"); wanted {
	case "apache":
		broker, err := StartApacheKafka(ctx)
		if err != nil {
			return nil, err
		}
		return &Kafka{kind: ApacheBroker, brokers: broker.Brokers(), apache: broker}, nil
	case "", "kfake":
		broker, err := StartKfake()
		if err != nil {
			return nil, err
		}
		return &Kafka{kind: KfakeBroker, brokers: broker.Brokers(), kfake: broker}, nil
	default:
		return nil, fmt.Errorf("servers: open kafka: SEMEL_TEST_KAFKA=%s: want apache or kfake", wanted)
	}
}

// Kind says which of the three it is.
func (k *Kafka) Kind() KafkaKind { return k.kind }

// Brokers are the addresses where clients connect.
func (k *Kafka) Brokers() []string { return k.brokers }

// Apache is the Apache Kafka broker, to be killed or restarted; nil for another kind.
func (k *Kafka) Apache() *ApacheKafka { return k.apache }

// Kfake is the kfake broker with its control functions; nil for another kind.
func (k *Kafka) Kfake() *Kfake { return k.kfake }

// CreateTopic makes a topic of one replica and waits until every partition has a leader.
func (k *Kafka) CreateTopic(ctx context.Context, name string, partitions int) error {
	return createTopic(ctx, k.brokers, name, partitions)
}

// Close ends what was started here and leaves external brokers alone.
func (k *Kafka) Close() error {
	switch k.kind {
	case ApacheBroker:
		return k.apache.Stop()
	case KfakeBroker:
		k.kfake.Close()
	}
	return nil
}
