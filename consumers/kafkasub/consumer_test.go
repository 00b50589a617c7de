package kafkasub_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func TestEveryRecordIsHandledInOrderAndCommitted(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*fake) (dedup.Processor, []kafkasub.Option){
		"one by one": func(f *fake) (dedup.Processor, []kafkasub.Option) { return f, nil },
		"each":       func(f *fake) (dedup.Processor, []kafkasub.Option) { return each{f}, nil },
		"few at once": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return each{f}, []kafkasub.Option{kafkasub.WithPrefetch(1)}
		},
		"batch": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return batch{f}, []kafkasub.Option{kafkasub.WithBatch(7, 0)}
		},
		"batch linger": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return batch{f}, []kafkasub.Option{kafkasub.WithBatch(7, 5*time.Millisecond)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			values := numbered("m", 300)
			produce(t, b, 0, values...)
			f := newFake(always)
			p, opts := wrap(f)
			r := run(t, newConsumer(t, groupConfig(b), p, opts...))
			f.untilCalls(t, 300)
			untilCommitted(t, b, 0, 300)
			r.stop(t)
			if got := f.seen(); !slices.Equal(got, values) {
				t.Errorf("handled %v, want %v", got, values)
			}
		})
	}
}

func TestMessageIsWhatTheRecordIs(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 3)
	at := time.UnixMilli(1_700_000_000_123)
	produceRecords(t, b,
		&kgo.Record{Topic: topic, Partition: 2, Value: []byte("first")},
		&kgo.Record{
			Topic: topic, Partition: 2, Key: []byte("k"), Value: []byte("v"), Timestamp: at,
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte("1")}, {Key: "ID", Value: nil}, {Key: "id", Value: []byte("2")}},
		},
		&kgo.Record{Topic: topic, Partition: 2, Value: nil},
		&kgo.Record{Topic: topic, Partition: 2, Value: []byte{}},
	)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p))
	p.untilCalls(t, 4)
	r.stop(t)
	m := p.calls[1]
	want := dedup.Position{Broker: "kafka", Log: topic, Partition: 2, Offset: 1, Time: at.UTC()}
	if m.Position != want || m.Topic != topic || m.Attempt != 1 || string(m.Key) != "k" || string(m.Body) != "v" {
		t.Errorf("message %+v", m)
	}
	if len(m.Headers) != 3 || m.Headers[0].Key != "id" || string(m.Headers[0].Value) != "1" ||
		m.Headers[1].Key != "ID" || string(m.Headers[2].Value) != "2" {
		t.Errorf("headers %v", m.Headers)
	}
	// kafka-go does not tell an empty value from none; both are none.
	if p.calls[2].Body != nil || p.calls[3].Body != nil || p.calls[0].Key != nil {
		t.Errorf("bodies %v and %v, want nil", p.calls[2].Body, p.calls[3].Body)
	}
}

func TestPartitionsAreHandledAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, "a")
	produce(t, b, 1, "b")
	var both sync.WaitGroup
	both.Add(2)
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		both.Done()
		both.Wait() // for ever, if one waits for the other to return
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), p))
	untilCommitted(t, b, 0, 1)
	untilCommitted(t, b, 1, 1)
	r.stop(t)
}

func TestFailingMessageHoldsBackItsPartitionAlone(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, numbered("m", 5)...)
	produce(t, b, 1, numbered("other", 5)...)
	var mended atomic.Bool
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "m2" && !mended.Load() {
			return failed(store.FaultHandler, "not yet")
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), each{p}, fastPolicy(1000)))
	p.until(t, "five attempts", func() bool {
		return len(slices.DeleteFunc(bodies(p.calls), func(v string) bool { return v != "m2" })) >= 5
	})
	untilCommitted(t, b, 1, 5)
	untilCommitted(t, b, 0, 2)
	if got := p.seen(); slices.Contains(got, "m3") {
		t.Errorf("handled %v: m3 before m2 was settled", got)
	}
	if lag := slices.IndexFunc(r.Assigned(), func(a kafkasub.Partition) bool {
		return a.Partition == 0 && a.Settled == 2 && a.Failures > 0 && a.Lag() == 3
	}); lag < 0 {
		t.Errorf("Assigned = %+v, want partition 0 to be failing at 2", r.Assigned())
	}
	mended.Store(true)
	untilCommitted(t, b, 0, 5)
	r.stop(t)
}

// The broker looks at every commit and compares it with what the processor has settled.
func TestNoOffsetIsCommittedBeforeItsMessageIsSettled(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 200)...)
	var settled, highest atomic.Int64
	var early, lower atomic.Int64
	b.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range t.Partitions {
				if p.Offset > settled.Load() {
					early.Add(1)
				}
				if p.Offset <= highest.Load() {
					lower.Add(1)
				}
				highest.Store(p.Offset)
			}
		}
		return nil, nil, false
	})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		time.Sleep(time.Duration(m.Position.Offset%7) * 100 * time.Microsecond) // gives commits time to overtake
		settled.Store(m.Position.Offset + 1)
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), each{p}, kafkasub.WithCommitInterval(time.Millisecond)))
	untilCommitted(t, b, 0, 200)
	r.stop(t)
	if early.Load() > 0 || lower.Load() > 0 {
		t.Errorf("%d commits came before their message was settled, %d were not above the one before", early.Load(), lower.Load())
	}
}

func TestCommitsAreCoalesced(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, numbered("a", 100)...)
	produce(t, b, 1, numbered("b", 100)...)
	var commits atomic.Int64
	b.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		commits.Add(1)
		return nil, nil, false
	})
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithCommitInterval(time.Minute)))
	p.untilCalls(t, 200)
	r.stop(t)
	for partition := range int32(2) {
		if got := committed(t, b, partition); got != 100 {
			t.Errorf("partition %d: committed %d, want 100", partition, got)
		}
	}
	if n := commits.Load(); n > 2 {
		t.Errorf("%d commits, want one at the beginning and one at the end", n)
	}
}

func TestRefusedCommitIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m")
	var refused atomic.Int64
	b.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if refused.Add(1) > 1 {
			return nil, nil, false
		}
		b.Cluster.KeepControl()
		res := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = topic
		rp := kmsg.NewOffsetCommitResponseTopicPartition()
		rp.ErrorCode = int16(kafka.GroupCoordinatorNotAvailable)
		rt.Partitions = append(rt.Partitions, rp)
		res.Topics = append(res.Topics, rt)
		return res, nil, true
	})
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p))
	untilCommitted(t, b, 0, 1)
	r.stop(t)
	if calls := p.seen(); len(calls) != 1 {
		t.Errorf("handled %v: a commit that fails must not repeat the message", calls)
	}
}

func TestBatchIsAsLargeAsItMayBeAndWaitsNoLongerThanItsLinger(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 25)...)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), batch{p}, kafkasub.WithBatch(10, 500*time.Millisecond)))
	p.untilCalls(t, 25)
	p.mu.Lock()
	sizes := slices.Clone(p.sizes)
	p.mu.Unlock()
	if !slices.Equal(sizes, []int{10, 10, 5}) {
		t.Errorf("batches of %v, want 10, 10 and, after the linger, 5", sizes)
	}
	r.stop(t)
}

// The linger is an hour: who waited for it would be found.
func TestBatchWaitsUntilItIsFullAndNoLonger(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), batch{p}, kafkasub.WithBatch(10, time.Hour)))
	produce(t, b, 0, numbered("m", 10)...)
	p.untilCalls(t, 10)
	produce(t, b, 0, "n0")
	eventually(t, "one has been read", func() bool { a := r.Assigned(); return len(a) == 1 && a[0].End == 11 })
	produce(t, b, 0, numbered("n", 10)[1:]...)
	p.untilCalls(t, 20)
	untilCommitted(t, b, 0, 20)
	r.stop(t)
	if !slices.Equal(p.sizes, []int{10, 10}) {
		t.Errorf("batches of %v, want 10 and 10", p.sizes)
	}
}

// What has not settled is the first of the next slice, alone, and what is before it is committed.
func TestPrefixOfASliceIsSettled(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*fake) (dedup.Processor, []kafkasub.Option){
		"each": func(f *fake) (dedup.Processor, []kafkasub.Option) { return each{f}, nil },
		"batch": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return batch{f}, []kafkasub.Option{kafkasub.WithBatch(10, time.Second)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			produce(t, b, 0, numbered("m", 10)...)
			var runs atomic.Int64
			blocked, goOn := make(chan struct{}), make(chan struct{})
			f := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
				if m.Position.Offset != 6 {
					return applied
				}
				if runs.Add(1) == 1 {
					return failed(store.FaultHandler, "once")
				}
				close(blocked)
				<-goOn
				return applied
			})
			p, opts := wrap(f)
			r := run(t, newConsumer(t, groupConfig(b), p, opts...))
			<-blocked
			untilCommitted(t, b, 0, 6)
			f.mu.Lock()
			if last := f.sizes[len(f.sizes)-1]; last != 1 {
				t.Errorf("the failing message is tried along with %d others", last-1)
			}
			f.mu.Unlock()
			close(goOn)
			untilCommitted(t, b, 0, 10)
			r.stop(t)
			want := append(numbered("m", 7), "m6", "m7", "m8", "m9")
			if got := f.seen(); !slices.Equal(got, want) {
				t.Errorf("handled %v, want %v", got, want)
			}
		})
	}
}

func TestSlowHandlersAreNotHandedMuchAtOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 12)...)
	p := newFake(func(context.Context, dedup.Message) dedup.Result {
		time.Sleep(60 * time.Millisecond) // this is its work, which is measured; a slow machine makes it longer, and the slices smaller
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), each{p}))
	p.untilCalls(t, 12)
	r.stop(t)
	if most := slices.Max(p.sizes); most > 2 {
		t.Errorf("up to %d messages of 60 ms handed over at once: %v", most, p.sizes)
	}
}

// A broker returns one batch whatever its size, or the partition would stand still.
func TestMessageThatIsLargerThanAFetchIsDelivered(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	large := strings.Repeat("x", 500_000)
	produce(t, b, 0, "before", large, "after")
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithFetch(1, 1000, 0)))
	untilCommitted(t, b, 0, 3)
	r.stop(t)
	if got := p.seen(); len(got) != 3 || got[1] != large {
		t.Errorf("%d messages handled", len(got))
	}
}

func TestSeveralTopics(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	if err := b.CreateTopic(context.Background(), "payments", 2); err != nil {
		t.Fatal(err)
	}
	produce(t, b, 0, "order")
	produceRecords(t, b, &kgo.Record{Topic: "payments", Partition: 1, Value: []byte("payment")})
	p := newFake(always)
	cfg := groupConfig(b)
	cfg.Topics = append(cfg.Topics, "payments")
	r := run(t, newConsumer(t, cfg, p))
	p.untilCalls(t, 2)
	if n := len(r.Assigned()); n != 3 {
		t.Errorf("%d partitions assigned, want 3: %v", n, r.Assigned())
	}
	r.stop(t)
	got := []string{}
	for _, m := range p.calls {
		got = append(got, fmt.Sprintf("%s/%d", m.Topic, m.Position.Partition))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{topic + "/0", "payments/1"}) {
		t.Errorf("messages from %v", got)
	}
}
