package kafkasub

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

// newTestLookup asks the brokers about a topic of so many partitions.
func newTestLookup(t *testing.T, brokers int, partitions int32) (*servers.Kfake, *lookup) {
	t.Helper()
	b := servertest.Kfake(t, kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, "orders"))
	l := newLookup(kafka.ConsumerGroupConfig{
		Brokers: b.Brokers(), Topics: []string{"orders"}, Timeout: 5 * time.Second, Dialer: &kafka.Dialer{Timeout: 5 * time.Second},
	})
	t.Cleanup(l.close)
	return b, l
}

func write(t *testing.T, b *servers.Kfake, rs ...*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestLogIsTheSameIfItsRecordHasTheTimeThatWasRead(t *testing.T) {
	t.Parallel()
	b, l := newTestLookup(t, 1, 1)
	at := time.UnixMilli(1_600_000_000_000)
	write(t, b,
		&kgo.Record{Topic: "orders", Timestamp: at},
		&kgo.Record{Topic: "orders", Timestamp: time.UnixMilli(-1)},
	)
	none := positionTime(time.Time{})
	for _, c := range []struct {
		name string
		read dedup.Position
		same bool
	}{
		{"the same time", dedup.Position{Offset: 0, Time: at}, true},
		{"another time", dedup.Position{Offset: 0, Time: at.Add(time.Millisecond)}, false},
		{"a time, and none was read", dedup.Position{Offset: 0, Time: none}, false},
		{"no time, and none was read", dedup.Position{Offset: 1, Time: none}, true},
		{"no time, and one was read", dedup.Position{Offset: 1, Time: at}, false},
		{"nothing was read", dedup.Position{}, true},
	} {
		same, err := l.isSame(t.Context(), place{"orders", 0}, c.read)
		if err != nil || same != c.same {
			t.Errorf("%s: same = %t, %v; want %t", c.name, same, err, c.same)
		}
	}
}

// Leaders move, and brokers go. Whoever leads then is asked, and nobody looks for who is gone.
func TestQuestionsFollowTheLeader(t *testing.T) {
	t.Parallel()
	b, l := newTestLookup(t, 3, 6)
	everyEnd := func(want int64) {
		t.Helper()
		for p := range 6 {
			for n := 1; ; n++ {
				_, end, err := l.bounds(t.Context(), place{"orders", p}, kafka.ReadUncommitted)
				if err == nil {
					if end != want {
						t.Errorf("partition %d ends at %d, want %d", p, end, want)
					}
					break
				}
				if n == 10 {
					t.Fatalf("partition %d: %v", p, err)
				}
				wait(t.Context(), brokerPace.Delay(n))
			}
		}
	}
	everyEnd(0)
	for p := range int32(6) {
		write(t, b, &kgo.Record{Topic: "orders", Partition: p})
	}
	for _, node := range []int32{0, 1, 2} {
		for p := range int32(6) {
			if err := b.Cluster.MoveTopicPartition("orders", p, node); err != nil {
				t.Fatal(err)
			}
		}
		everyEnd(1)
		l.mu.Lock()
		for broker := range l.lines {
			if len(l.lines) > 1 || broker.ID != int(node) {
				t.Errorf("there is a line to broker %d, and %d leads everything", broker.ID, node)
			}
		}
		l.mu.Unlock()
	}
	if err := b.Cluster.RemoveNode(2); err != nil {
		t.Fatal(err)
	}
	everyEnd(1)
}

// One broker has as many questions as may be under way to it, and more, and answers none.
func TestQuestionsToOneBrokerHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	b, l := newTestLookup(t, 2, 2)
	for p := range int32(2) {
		if err := b.Cluster.MoveTopicPartition("orders", p, p); err != nil {
			t.Fatal(err)
		}
	}
	asked, goOn := make(chan struct{}), make(chan struct{})
	var asking sync.WaitGroup
	for range 3 * lineSlots {
		asking.Go(func() {
			err := l.askLeader(t.Context(), place{"orders", 0}, func(context.Context, *kafka.Client) error {
				asked <- struct{}{}
				<-goOn
				return errors.New("no answer")
			})
			if err == nil {
				t.Error("an error was expected")
			}
		})
	}
	for range lineSlots {
		<-asked
	}
	ends := func() {
		t.Helper()
		if _, _, err := l.bounds(t.Context(), place{"orders", 1}, kafka.ReadUncommitted); err != nil {
			t.Error(err)
		}
	}
	ends()
	before := l.known(place{"orders", 1})
	close(goOn)
	for range 2 * lineSlots {
		<-asked
	}
	asking.Wait()
	ends()
	if l.known(place{"orders", 1}) != before {
		t.Error("the line to the other broker is another one")
	}
}

// Its client would carry the question on to the new leader, over the line to the old one.
func TestBrokerThatLeadsNoMoreIsNotAsked(t *testing.T) {
	t.Parallel()
	b, l := newTestLookup(t, 2, 1)
	at := place{"orders", 0}
	former, err := l.leaderOf(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Cluster.MoveTopicPartition("orders", 0, int32(1-former.broker.ID)); err != nil {
		t.Fatal(err)
	}
	err = l.askLeader(t.Context(), at, func(context.Context, *kafka.Client) error { t.Error("it was asked"); return nil })
	if !errors.Is(err, kafka.NotLeaderForPartition) {
		t.Errorf("asking the former leader = %v", err)
	}
	if _, _, err := l.bounds(t.Context(), at, kafka.ReadUncommitted); err != nil || l.known(at) == former {
		t.Errorf("asking once more = %v, of the former leader: %t", err, l.known(at) == former)
	}
}

// Whichever of the group's brokers is asked, one that does not answer is not asked again and again.
func TestAnyoneIsSomebodyWhoAnswers(t *testing.T) {
	t.Parallel()
	b, l := newTestLookup(t, 2, 1)
	frozen, err := servers.StartProxy(b.Brokers()[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frozen.Close() }()
	frozen.Freeze()
	l = newLookup(kafka.ConsumerGroupConfig{
		Brokers: []string{b.Brokers()[0], frozen.Addr()}, Topics: l.topics, Timeout: 2 * time.Second, Dialer: l.dialer,
	})
	defer l.close()
	mistakes := 0
	for range 20 { // each time over a new connection
		if l.anyone.ask(t.Context(), l.findLeaders) != nil {
			mistakes++
		}
	}
	if mistakes > 4 { // another one may be made while the first one is being given up, or the machine be slow
		t.Errorf("a broker that does not answer was asked %d times", mistakes)
	}
}
