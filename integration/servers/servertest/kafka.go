package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/semel-dev/semel/integration/servers"
)

var kafka shared[*servers.Kafka]

// Kafka returns the Kafka that the tests of the process share, as [servers.OpenKafka] chooses it: the brokers of
// KAFKA_BROKERS, an Apache Kafka broker if SEMEL_TEST_KAFKA is "apache", else a kfake broker. Tests make topics and
// groups with names that are theirs alone.
func Kafka(t testing.TB) *servers.Kafka {
	t.Helper()
	k, err := kafka.get(servers.OpenKafka, (*servers.Kafka).Close)
	if err != nil {
		t.Fatalf("this test needs the Kafka that the environment asks for: set KAFKA_BROKERS, or SEMEL_TEST_KAFKA=apache with Java and Maven installed, or neither: %v", err)
	}
	return k
}

// Kfake returns an in-process Kafka broker that belongs to t and ends with it, for tests that control what it answers.
func Kfake(t testing.TB, opts ...kfake.Opt) *servers.Kfake {
	t.Helper()
	broker, err := servers.StartKfake(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker
}
