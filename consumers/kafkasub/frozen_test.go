package kafkasub_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/integration/servers"
)

// twoBrokers is a cluster in which one broker coordinates the group and leads partition 0, and the
// other one leads the rest and can be frozen.
func twoBrokers(t *testing.T, partitions int32) (b *servers.Kfake, cfg kafka.ConsumerGroupConfig, other *servers.Proxy) {
	t.Helper()
	b = startBroker(t, partitions, kfake.NumBrokers(2))
	well := b.Cluster.CoordinatorFor(group)
	var addr, otherAddr string
	for _, broker := range request[*kmsg.MetadataResponse](t, b, kmsg.NewPtrMetadataRequest()).Brokers {
		at := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		if broker.NodeID == well {
			addr = at
			continue
		}
		otherAddr = at
		for p := range partitions {
			to := broker.NodeID
			if p == 0 {
				to = well
			}
			if err := b.Cluster.MoveTopicPartition(topic, p, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	other, err := servers.StartProxy(otherAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	cfg = groupConfig(b)
	cfg.Brokers = []string{addr, otherAddr}
	cfg.Dialer = &kafka.Dialer{Timeout: 5 * time.Second, DialFunc: func(ctx context.Context, network, to string) (net.Conn, error) {
		if to == otherAddr {
			to = other.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}}
	return b, cfg, other
}

// The records of the one that answers have to be asked about, and so has the state of every log whose
// reader gives up.
func TestFrozenBrokerDoesNotHoldUpThePartitionsOfAnother(t *testing.T) {
	t.Parallel()
	const frozen, records = 12, 40
	b, cfg, other := twoBrokers(t, 1+frozen)
	cfg.Timeout = 2 * time.Second
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, log, kafkasub.WithFetch(0, 0, time.Second)))
	for partition := range int32(1 + frozen) {
		produce(t, b, partition, "before")
	}
	p.untilCalls(t, 1+frozen) // every partition is being read
	other.Freeze()
	eventually(t, "the readers have given up", func() bool { return book.has("the state of the log cannot be had") })
	var shaped []*kgo.Record
	for range records {
		shaped = append(shaped, &kgo.Record{Topic: topic, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)})
	}
	produceRecords(t, b, shaped...)
	p.untilCalls(t, 1+frozen+records)
	other.Thaw()
	produce(t, b, 1, "after")
	p.untilCalls(t, 1+frozen+records+1)
	r.stop(t)
}

// A reader that is replaced asks no other broker before the leader, whatever the order in the configuration.
func TestReaderIsReplacedWhileTheBrokerThatIsListedFirstIsFrozen(t *testing.T) {
	t.Parallel()
	b, cfg, other := twoBrokers(t, 2)
	slices.Reverse(cfg.Brokers)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, log))
	produce(t, b, 0, "before")
	p.untilCalls(t, 1)
	other.Freeze()
	breakOneFetch(b)
	produce(t, b, 0, "wakes the reader")
	eventually(t, "the connection has broken", func() bool { return book.has("the reader is replaced") })
	produce(t, b, 0, "after")
	p.untilCalls(t, 3)
	other.Thaw()
	r.stop(t)
}

// Who coordinates the group is asked of a broker that answers, to join it and to leave it.
func TestGroupIsJoinedAndLeftWhileTheBrokerThatIsListedFirstIsFrozen(t *testing.T) {
	t.Parallel()
	b, cfg, other := twoBrokers(t, 2)
	slices.Reverse(cfg.Brokers)
	cfg.Timeout = 2 * time.Second
	other.Freeze()
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, kafkasub.WithStartLimit(time.Minute)))
	produce(t, b, 0, "m0")
	p.untilCalls(t, 1)
	untilCommitted(t, b, 0, 1)
	r.stop(t)
	other.Thaw()
}

// breakOneFetch makes the broker close the connection of the fetch that comes next.
func breakOneFetch(b *servers.Kfake) {
	b.Cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("the connection breaks"), true // once
	})
}
