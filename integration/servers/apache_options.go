package servers

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultKafkaVersion is the release of Apache Kafka that is started unless an option or the environment variable
// SEMEL_TEST_KAFKA_VERSION names another.
const DefaultKafkaVersion = "4.4.0"

// ApacheKafkaOption changes how an Apache Kafka broker is started.
type ApacheKafkaOption interface{ applyApacheKafka(*apacheConfig) }

type apacheOption func(*apacheConfig)

func (o apacheOption) applyApacheKafka(c *apacheConfig) { o(c) }

type apacheConfig struct {
	version  string
	settings map[string]string
}

type apachePorts struct{ broker, controller int }

// WithKafkaVersion names the release, such as "4.1.2". The default is SEMEL_TEST_KAFKA_VERSION or, without it,
// [DefaultKafkaVersion]. The package documentation says which ones the client of this project can speak to.
func WithKafkaVersion(version string) ApacheKafkaOption {
	return apacheOption(func(c *apacheConfig) { c.version = version })
}

// WithKafkaSetting sets a parameter of server.properties, for example
// WithKafkaSetting("auto.create.topics.enable", "true"). It wins over the defaults of this package, among which
// auto-creation is off.
func WithKafkaSetting(name, value string) ApacheKafkaOption {
	return apacheOption(func(c *apacheConfig) { c.settings[name] = value })
}

func newApacheConfig(opts []ApacheKafkaOption) apacheConfig {
	c := apacheConfig{
		version: cmp.Or(os.Getenv("SEMEL_TEST_KAFKA_VERSION"), DefaultKafkaVersion),
		settings: map[string]string{
			"auto.create.topics.enable":        "false",
			"group.initial.rebalance.delay.ms": "0",
			// One broker holds the only copy of everything.
			"default.replication.factor":                       "1",
			"min.insync.replicas":                              "1",
			"offsets.topic.replication.factor":                 "1",
			"transaction.state.log.replication.factor":         "1",
			"transaction.state.log.min.isr":                    "1",
			"share.coordinator.state.topic.replication.factor": "1",
			"share.coordinator.state.topic.min.isr":            "1",
			// Small and quick to start.
			"offsets.topic.num.partitions":         "3",
			"transaction.state.log.num.partitions": "3",
			"log.cleaner.dedupe.buffer.size":       "16777216",
			// A broker that comes back waits until the controller has given up its earlier run.
			"broker.heartbeat.interval.ms": "500",
			"broker.session.timeout.ms":    "3000",
		},
	}
	for _, o := range opts {
		o.applyApacheKafka(&c)
	}
	return c
}

// properties is the text of server.properties.
func (c apacheConfig) properties(ports apachePorts, data string) string {
	all := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"listeners":                      fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", hostPort(ports.broker), hostPort(ports.controller)),
		"advertised.listeners":           "PLAINTEXT://" + hostPort(ports.broker),
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names":      "CONTROLLER",
		"controller.quorum.voters":       "1@" + hostPort(ports.controller),
		"log.dirs":                       filepath.ToSlash(data),
	}
	maps.Copy(all, c.settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", name, all[name])
	}
	return b.String()
}

// newClusterID is 16 random bytes in the form that Kafka gives its ids. One that begins with a dash would be taken for
// an option by the tool that formats the log.
func newClusterID() string {
	for {
		var b [16]byte
		rand.Read(b[:]) //nolint:errcheck // It never returns an error; it crashes the program instead.
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}
