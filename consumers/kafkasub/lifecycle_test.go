package kafkasub_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
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
	"github.com/semel-dev/semel/store"
)

// untilReady waits until the consumer is ready, or until what it lacks has the words.
func untilReady(t testing.TB, c *kafkasub.Consumer, words ...string) {
	t.Helper()
	eventually(t, "ready, or not: "+strings.Join(words, " "), func() bool {
		err := c.Ready()
		if len(words) == 0 {
			return err == nil
		}
		return err != nil && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) })
	})
}

func TestPauseHandsNothingOverAndKeepsTheGroupThroughARebalance(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kafkasub.Option{"one lane": nil, "lanes": {kafkasub.WithConcurrency(4)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 2)
			produce(t, b, 0, "m0")
			entered, goOn := make(chan struct{}), make(chan struct{})
			var down atomic.Bool
			p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
				switch {
				case string(m.Body) == "m0":
					close(entered)
					<-goOn
				case down.Load():
					return failed(store.FaultOutage, "down")
				}
				return applied
			})
			cfg := groupConfig(b)
			cfg.HeartbeatInterval = 10 * time.Millisecond
			beats := countRequests(b, kmsg.Heartbeat)
			r := run(t, newConsumer(t, cfg, each{p}, opts...))
			<-entered
			r.Pause()
			r.Pause() // is paused already
			close(goOn)
			untilCommitted(t, b, 0, 1) // what was running may finish
			produce(t, b, 0, numbered("n", 1000)...)
			produce(t, b, 1, "other")
			joinForAMoment(t, b)
			untilReady(t, r.Consumer)
			eventually(t, "it has read on", func() bool {
				return slices.ContainsFunc(r.Assigned(), func(a kafkasub.Partition) bool { return a.End == 1001 })
			})
			if got := p.seen(); len(got) != 1 {
				t.Errorf("handled %v while paused", got[1:])
			}
			if got := r.Assigned(); !r.Paused() || len(got) != 2 || !got[0].Paused || !got[1].Paused {
				t.Errorf("Paused is %t and Assigned %+v, want both partitions, paused", r.Paused(), got)
			}
			down.Store(true)
			r.Resume()
			p.until(t, "attempts", func() bool { return count(p.calls, "n0") > 2 })
			r.Pause()    // holds retries too
			beats(t, 10) // of this process, which is in the group all the while: what was being handed over is
			calls := len(p.seen())
			beats(t, 10) // more than the longest delay of a retry
			if got := len(p.seen()); got != calls {
				t.Errorf("%d calls while paused", got-calls)
			}
			down.Store(false)
			if r.Resume(); r.Paused() {
				t.Error("paused after Resume")
			}
			untilCommitted(t, b, 0, 1001)
			untilCommitted(t, b, 1, 1)
			r.stop(t)
		})
	}
}

func TestPauseBeforeRunAndShutdownWhilePaused(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	p := newFake(always)
	c := newConsumer(t, groupConfig(b), p)
	c.Pause()
	r := run(t, c)
	eventually(t, "it has read", func() bool { a := r.Assigned(); return len(a) == 1 && a[0].End == 1 })
	began := time.Now()
	r.stop(t)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Run took %s to return", took)
	}
	if got := p.seen(); len(got) != 0 || committed(t, b, 0) != -1 {
		t.Errorf("handled %v and committed %d while paused", got, committed(t, b, 0))
	}
}

// slowCheck is a processor whose check ends when the test says so.
type slowCheck struct {
	*fake
	answer chan error
}

func (s slowCheck) Check(context.Context) error { return <-s.answer }

func TestReadySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1, kfake.GroupMinSessionTimeout(time.Second))
	cfg := groupConfig(b)
	cfg.SessionTimeout, cfg.RebalanceTimeout, cfg.Timeout = 3300*time.Millisecond, 3300*time.Millisecond, time.Second
	cfg.Topics = []string{topic, "late"}
	proxy := through(t, b, &cfg)
	goOn := make(chan struct{})
	p := slowCheck{newFake(func(context.Context, dedup.Message) dedup.Result { <-goOn; return applied }), make(chan error)}
	book, log := newLogBook(t)
	c := newConsumer(t, cfg, p, log, kafkasub.WithStartLimit(time.Minute))
	if err := c.Ready(); err == nil || err.Error() != `kafkasub: group "billing" is not ready: Run has not been called` {
		t.Errorf("Ready before Run = %v", err)
	}
	r := run(t, c)
	untilReady(t, c, "the processor has not passed its check")
	p.answer <- nil
	untilReady(t, c, "the brokers have not been reached", `topic "late" does not exist`)
	if err := b.CreateTopic(context.Background(), "late", 1); err != nil {
		t.Fatal(err)
	}
	untilReady(t, c)
	// A rebalance is part of the game, also while it waits for a handler.
	produce(t, b, 0, "m0")
	p.untilCalls(t, 1)
	other := joinOther(t, b)
	eventually(t, "the partitions are being given up", func() bool { return book.has("giving the partitions up") })
	if err := c.Ready(); err != nil {
		t.Errorf("Ready during a rebalance = %v", err)
	}
	close(goOn)
	eventually(t, "the other member has joined", func() bool { return len(other.Assigned()) == 1 })
	other.stop(t)
	untilReady(t, c)
	// That the group is gone is not.
	proxy.Freeze()
	untilReady(t, c, "not in the group since")
	proxy.Thaw()
	untilReady(t, c)
	// kafka-go joins, but has nothing to do without a topic.
	deleteTopic(t, b)
	untilReady(t, c, "a topic is missing")
	makeTopic(t, b, 1)
	untilReady(t, c)
	r.stop(t)
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "Run has ended") {
		t.Errorf("Ready after Run = %v", err)
	}
}

func TestReadyAfterACheckThatFailed(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, kafka.ConsumerGroupConfig{ID: group, Brokers: []string{"127.0.0.1:1"}, Topics: []string{topic}}, checked{newFake(always), errors.New("no table")})
	if err := c.Run(t.Context()); err == nil {
		t.Fatal("Run = nil")
	}
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "Run has ended") {
		t.Errorf("Ready = %v", err)
	}
}

func TestLastProgress(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	var mended atomic.Bool
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Position.Partition == 0 && !mended.Load() {
			return failed(store.FaultOutage, "down")
		}
		return applied
	})
	produce(t, b, 0, "m0")
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithSilence(50*time.Millisecond)))
	at := func(partition int) time.Time {
		for _, a := range r.Assigned() {
			if a.Partition == partition {
				return a.LastProgress
			}
		}
		return time.Time{}
	}
	p.until(t, "some attempts", func() bool { return len(p.calls) > 3 })
	stuck := at(0)
	since := time.Now()
	eventually(t, "the empty partition has been looked at", func() bool { return at(1).After(since) })
	p.until(t, "more attempts", func() bool { return len(p.calls) > 10 })
	if !at(0).Equal(stuck) {
		t.Error("there is progress although the message fails")
	}
	joinForAMoment(t, b)
	eventually(t, "the partition is back", func() bool { return !at(0).IsZero() })
	if !at(0).Equal(stuck) {
		t.Error("a rebalance counts as progress")
	}
	since = time.Now()
	mended.Store(true)
	eventually(t, "progress", func() bool { return at(0).After(since) })
	r.stop(t)
}

// Two consumers of a process know nothing of each other.
func TestSeveralConsumersInOneProcess(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	if err := b.CreateTopic(context.Background(), "payments", 1); err != nil {
		t.Fatal(err)
	}
	produce(t, b, 0, "order")
	produceRecords(t, b, &kgo.Record{Topic: "payments", Value: []byte("payment")})
	cfg := groupConfig(b)
	fails := newFake(failOn("order", failed(store.FaultSetup, "no table")))
	works, other := newFake(always), newFake(always)
	r1 := run(t, newConsumer(t, cfg, fails))
	cfg.ID = "shipping" // the same records once more
	r2 := run(t, newConsumer(t, cfg, works))
	cfg.ID, cfg.Topics = "accounts", []string{"payments"}
	r3 := run(t, newConsumer(t, cfg, other))
	if err := r1.wait(t); err == nil || !strings.Contains(err.Error(), "no table") {
		t.Errorf("Run = %v", err)
	}
	works.untilCalls(t, 1)
	other.untilCalls(t, 1)
	r2.Pause()
	produce(t, b, 0, "order 2")
	produceRecords(t, b, &kgo.Record{Topic: "payments", Value: []byte("payment 2")})
	other.untilCalls(t, 2)
	r3.stop(t)
	r2.Resume()
	works.untilCalls(t, 2)
	r2.stop(t)
	if got := strings.Join(slices.Concat(works.seen(), other.seen()), " "); got != "order order 2 payment payment 2" {
		t.Errorf("handled %q", got)
	}
}

// The broker that leads the partitions and coordinates the group goes away for good, another comes.
func TestBrokerThatIsReplaced(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 3, kfake.NumBrokers(3))
	kept := newMarks()
	p := newFake(kept.apply)
	r := run(t, newConsumer(t, groupConfig(b), p))
	for round := range 3 {
		for partition := range int32(3) {
			produce(t, b, partition, numbered("m", 20)...)
		}
		if err := b.Cluster.RemoveNode(b.Cluster.CoordinatorFor(group)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Cluster.AddNode(-1, 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "every message is applied", func() bool { return kept.count() == 60*(round+1) })
	}
	for partition := range int32(3) {
		untilCommitted(t, b, partition, 60)
	}
	untilReady(t, r.Consumer)
	r.stop(t)
}

// A real broker is killed and comes back with what it had on its disk.
func TestKafkaThatIsKilledAndRestarted(t *testing.T) {
	if os.Getenv("SEMEL_TEST_KAFKA") != "apache" {
		t.Skip("kfake keeps nothing over a restart; set SEMEL_TEST_KAFKA=apache for a real broker, which needs Java and Maven")
	}
	t.Parallel()
	k, err := servers.StartApacheKafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Stop() }()
	if err := k.CreateTopic(t.Context(), topic, 1); err != nil {
		t.Fatal(err)
	}
	w := &kafka.Writer{Addr: kafka.TCP(k.Brokers()...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Transport: &kafka.Transport{}}
	defer w.Transport.(*kafka.Transport).CloseIdleConnections()
	defer w.Close()
	write := func(body string) {
		t.Helper()
		if err := w.WriteMessages(t.Context(), kafka.Message{Value: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	p := keeper{newFake(newMarks().apply), time.Hour}
	book, log := newLogBook(t)
	cfg := kafka.ConsumerGroupConfig{ID: group, Brokers: k.Brokers(), Topics: []string{topic}, SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond}
	r := run(t, newConsumer(t, cfg, p, log, kafkasub.WithConcurrency(3)))
	write("before")
	p.untilCalls(t, 1)
	if !book.has("the topic keeps records longer than marks are kept", "for 168h0m0s") {
		t.Error("the settings of the topic were not read")
	}
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := k.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("after")
	p.until(t, "the message after the restart", func() bool { return count(p.calls, "after") > 0 })
	untilReady(t, r.Consumer)
	r.stop(t)
}
