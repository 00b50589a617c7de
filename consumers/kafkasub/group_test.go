package kafkasub_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store/memstore"
)

// marks is what a guard keeps: it tells a message that was applied from one that was not.
type marks struct {
	mu      sync.Mutex
	applied map[dedup.Position]bool
	repeats int
	change  chan struct{}
}

func newMarks() *marks {
	return &marks{applied: map[dedup.Position]bool{}, change: make(chan struct{}, 1)}
}

func (k *marks) apply(_ context.Context, m dedup.Message) dedup.Result {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case k.change <- struct{}{}:
	default:
	}
	if k.applied[m.Position] {
		k.repeats++
		return dedup.Result{Outcome: dedup.Duplicate}
	}
	k.applied[m.Position] = true
	return applied
}

func (k *marks) has(p dedup.Position) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.applied[p]
}

func (k *marks) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.applied)
}

// Three members come and go under load. The guard is a real one, so what counts is what it has committed:
// every message, once.
func TestRebalancesUnderLoadLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	const partitions, perRound, rounds = 4, 25, 40
	b := startBroker(t, partitions)
	s := memstore.New()
	var runs atomic.Int64
	start := func() *running {
		guard, err := dedup.NewTx(s, "billing", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			runs.Add(1)
			time.Sleep(time.Millisecond)
			_, err := tx.Add(ctx, "effect of "+string(m.Body), 1)
			if err != nil {
				return err
			}
			_, err = tx.Add(ctx, "effects", 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return run(t, newConsumer(t, groupConfig(b), guard))
	}
	client := newClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var load sync.WaitGroup
	load.Go(func() {
		for round := range rounds {
			var rs []*kgo.Record
			for i := range partitions * perRound {
				rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d-%d", round, i)})
			}
			if err := client.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
				t.Error(err)
			}
		}
	})
	members := []*running{start(), start(), start()}
	for i := range 7 {
		eventually(t, "some more is done", func() bool { return s.Get("effects") >= int64(i+1)*partitions*perRound*rounds/8 })
		members[i%3].stop(t)
		members[i%3] = start()
	}
	load.Wait()
	for partition := range int32(partitions) {
		untilCommitted(t, b, partition, perRound*rounds)
	}
	for _, m := range members {
		m.stop(t)
	}
	if got := s.Get("effects"); got != partitions*perRound*rounds {
		t.Errorf("%d effects of %d messages", got, partitions*perRound*rounds)
	}
	for round := range rounds {
		for i := range partitions * perRound {
			if n := s.Get(fmt.Sprintf("effect of %d-%d", round, i)); n != 1 {
				t.Errorf("message %d-%d has %d effects", round, i, n)
			}
		}
	}
	t.Logf("%d runs of the handler", runs.Load())
}

// The partition goes to the next owner when the handler has finished and its offset is committed.
func TestRebalanceWaitsForTheRunningHandler(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, numbered("a", 3)...)
	produce(t, b, 1, numbered("b", 3)...)
	kept := newMarks()
	entered, goOn := make(chan struct{}, 2), make(chan struct{})
	first := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 1 {
			entered <- struct{}{}
			<-goOn
		}
		return kept.apply(ctx, m)
	})
	book, log := newLogBook(t)
	r1 := run(t, newConsumer(t, groupConfig(b), first, log))
	<-entered
	<-entered
	second := newFake(kept.apply)
	r2 := run(t, newConsumer(t, groupConfig(b), second))
	eventually(t, "the first member knows of the second", func() bool { return book.has("giving the partitions up") })
	close(goOn)
	eventually(t, "both members have a partition", func() bool { return len(r1.Assigned()) == 1 && len(r2.Assigned()) == 1 })
	untilCommitted(t, b, 0, 3)
	untilCommitted(t, b, 1, 3)
	r1.stop(t)
	r2.stop(t)
	if kept.count() != 6 || kept.repeats > 0 {
		t.Errorf("%d messages applied and %d redelivered, want 6 and none", kept.count(), kept.repeats)
	}
}

// A handler that does not even end when it is cancelled cannot keep its member from rebalancing.
func TestRebalanceDoesNotWaitForAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, "hang")
	produce(t, b, 1, "fine")
	entered, goOn := make(chan struct{}, 10), make(chan struct{})
	var ended sync.WaitGroup
	answer := func(ctx context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "hang" {
			ended.Add(1)
			defer ended.Done()
			entered <- struct{}{}
			<-goOn
		}
		return applied
	}
	book, log := newLogBook(t)
	r1 := run(t, newConsumer(t, groupConfig(b), newFake(answer), kafkasub.WithDrain(100*time.Millisecond), log))
	<-entered
	r2 := run(t, newConsumer(t, groupConfig(b), newFake(answer), kafkasub.WithDrain(100*time.Millisecond)))
	eventually(t, "both members have a partition", func() bool { return len(r1.Assigned()) == 1 && len(r2.Assigned()) == 1 })
	if !book.has("ignores its cancelled context", "topic=orders", "partition=0", "offset=0") {
		t.Error("nothing was logged about the handler that hangs")
	}
	<-entered
	close(goOn)
	ended.Wait()
	untilCommitted(t, b, 0, 1)
	r1.stop(t)
	r2.stop(t)
}

// through makes a consumer reach the broker by way of a proxy.
func through(t *testing.T, b *servers.Kfake, cfg *kafka.ConsumerGroupConfig) *servers.Proxy {
	t.Helper()
	proxy, err := servers.StartProxy(b.Brokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg.Dialer = &kafka.Dialer{Timeout: 5 * time.Second, DialFunc: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxy.Addr())
	}}
	return proxy
}

// A member that is cut off for longer than its session is no owner any more. What it commits then
// must not undo what the next owner has committed.
func TestLateCommitOfAStaleOwnerDoesNotMoveTheOffsetBack(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 10)...)
	cfg := groupConfig(b)
	cfg.Timeout = 30 * time.Second // so that the late commit is still waited for when it arrives
	proxy := through(t, b, &cfg)
	var late atomic.Int64
	b.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range t.Partitions {
				if p.Offset == 3 {
					late.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	entered, goOn := make(chan struct{}), make(chan struct{})
	stale := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 2 {
			close(entered)
			<-goOn
		}
		if m.Position.Offset == 3 {
			return failed(99, "no more")
		}
		return applied
	})
	book, log := newLogBook(t)
	r1 := run(t, newConsumer(t, cfg, stale, log))
	<-entered
	untilCommitted(t, b, 0, 2)
	proxy.Freeze()
	close(goOn) // message 2 is settled, its commit goes into the frozen connection
	stale.untilCalls(t, 4)

	next := newFake(func(_ context.Context, m dedup.Message) dedup.Result { return applied })
	r2 := run(t, newConsumer(t, groupConfig(b), next))
	untilCommitted(t, b, 0, 10)
	proxy.Thaw()
	eventually(t, "the late commit has arrived", func() bool { return late.Load() > 0 })
	eventually(t, "the stale owner has learnt of it", func() bool { return book.has("offsets not committed", "the group has moved on") })
	if got := committed(t, b, 0); got != 10 {
		t.Errorf("committed %d, want 10", got)
	}
	r1.stop(t)
	r2.stop(t)
	if got := committed(t, b, 0); got != 10 {
		t.Errorf("committed %d in the end, want 10", got)
	}
}

func TestNewPartitionsAreNoticed(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p))
	eventually(t, "the partition is assigned", func() bool { return len(r.Assigned()) == 1 })
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 1000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, 3
	req.Topics = append(req.Topics, rt)
	request[*kmsg.CreatePartitionsResponse](t, b, req)
	produce(t, b, 2, "early") // before it is noticed
	p.untilCalls(t, 1)
	untilCommitted(t, b, 2, 1)
	r.stop(t)
}

func TestStartAtTheEndMustBeAllowedAndIsCommittedAtOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("old", 5)...)
	cfg := groupConfig(b)
	cfg.StartOffset = kafka.LastOffset
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, kafkasub.AllowLastOffset()))
	untilCommitted(t, b, 0, 5)
	r.stop(t)
	produce(t, b, 0, "between")
	r = run(t, newConsumer(t, cfg, p, kafkasub.AllowLastOffset()))
	p.untilCalls(t, 1)
	r.stop(t)
	if got := strings.Join(p.seen(), " "); got != "between" {
		t.Errorf("handled %q, want what came after the first start", got)
	}
}

func TestMemberWithoutPartitionsTakesOver(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	first, second := newFake(always), newFake(always)
	r1 := run(t, newConsumer(t, groupConfig(b), first))
	produce(t, b, 0, "m0")
	first.untilCalls(t, 1)
	_, log := newLogBook(t)
	r2 := run(t, newConsumer(t, groupConfig(b), second, log))
	eventually(t, "one of two has the partition", func() bool { return len(r1.Assigned())+len(r2.Assigned()) == 1 })
	r1.stop(t)
	produce(t, b, 0, "m1")
	eventually(t, "the rest is handled", func() bool { return committed(t, b, 0) == 2 })
	r2.stop(t)
}

// Leaders and coordinators move; nothing is lost or done twice, and nobody has to know.
func TestMovesOfLeadersAndCoordinatorsAreFollowed(t *testing.T) {
	t.Parallel()
	const rounds, each = 6, 20
	b := startBroker(t, 3, kfake.NumBrokers(3))
	kept := newMarks()
	p := newFake(kept.apply)
	_, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), p, log))
	for round := range rounds {
		for partition := range int32(3) {
			produce(t, b, partition, numbered(fmt.Sprintf("m%d-", round), each)...)
		}
		switch round % 2 {
		case 0:
			b.Cluster.ShufflePartitionLeaders()
		case 1:
			b.Cluster.RehashCoordinators()
		}
	}
	eventually(t, "every message is applied", func() bool { return kept.count() == 3*rounds*each })
	for partition := range int32(3) {
		untilCommitted(t, b, partition, rounds*each)
	}
	r.stop(t)
}
