package servers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kfake is a Kafka broker inside this process. It speaks the protocol, with groups, transactions and retention, and
// keeps everything in memory; for what it cannot show (a real restart, compaction, the versions that a broker refuses)
// there is [ApacheKafka].
type Kfake struct {
	// Cluster takes control functions, which answer, delay or fail chosen requests, and moves of leadership.
	Cluster *kfake.Cluster
}

// StartKfake starts a cluster of one broker on a free loopback port. The options are those of kfake itself, for
// example kfake.SeedTopics(3, "orders"), kfake.NumBrokers(3), or kfake.AllowAutoTopicCreation(), without which topics
// must be made before they are used. The caller ends it with [Kfake.Close].
func StartKfake(opts ...kfake.Opt) (*Kfake, error) {
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("servers: start kfake: %w", err)
	}
	return &Kfake{Cluster: cluster}, nil
}

// Brokers are the addresses where clients connect.
func (k *Kfake) Brokers() []string { return k.Cluster.ListenAddrs() }

// CreateTopic makes a topic and waits until every partition has a leader.
func (k *Kfake) CreateTopic(ctx context.Context, name string, partitions int) error {
	return createTopic(ctx, k.Brokers(), name, partitions)
}

// Close ends the cluster; all that it held is gone.
func (k *Kfake) Close() { k.Cluster.Close() }
