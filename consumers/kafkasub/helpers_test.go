package kafkasub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
)

const (
	topic = "orders"
	group = "billing"
	soon  = 20 * time.Second // long for a slow machine, never waited out by a test that passes
)

func TestMain(m *testing.M) {
	if victim() {
		return
	}
	goleak.VerifyTestMain(m)
}

// startBroker returns a broker with the topic in so many partitions.
func startBroker(t testing.TB, partitions int32, opts ...kfake.Opt) *servers.Kfake {
	t.Helper()
	return servertest.Kfake(t, append([]kfake.Opt{kfake.SeedTopics(partitions, topic)}, opts...)...)
}

// groupConfig has the timeouts that make a test short.
func groupConfig(b *servers.Kfake) kafka.ConsumerGroupConfig {
	return kafka.ConsumerGroupConfig{
		ID: group, Brokers: b.Brokers(), Topics: []string{topic},
		HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second,
		JoinGroupBackoff: 200 * time.Millisecond, PartitionWatchInterval: 200 * time.Millisecond,
	}
}

func fastPolicy(attempts int) kafkasub.Option {
	return kafkasub.WithPolicy(consumers.Policy{MaxAttempts: attempts, MinDelay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond})
}

func newConsumer(t testing.TB, cfg kafka.ConsumerGroupConfig, p dedup.Processor, opts ...kafkasub.Option) *kafkasub.Consumer {
	t.Helper()
	opts = append([]kafkasub.Option{
		fastPolicy(3), kafkasub.WithCommitInterval(10 * time.Millisecond),
	}, opts...)
	c, err := kafkasub.New(cfg, p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// running is a consumer at work.
type running struct {
	*kafkasub.Consumer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// run starts the consumer; the test must end it, with stop or otherwise.
func run(t testing.TB, c *kafkasub.Consumer) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Consumer: c, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = c.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-r.ended })
	return r
}

// wait returns what Run returned.
func (r *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(2 * soon):
		t.Fatal("Run does not return")
		return nil
	}
}

// stop ends the consumer and wants it clean.
func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Fatalf("Run = %v, want nil", err)
	}
}

// fake is a processor that answers with what its function says and remembers what it was asked. As
// it is, it handles one message at a time.
type fake struct {
	answer func(ctx context.Context, m dedup.Message) dedup.Result
	bury   func(ctx context.Context, m dedup.Message, reason error) dedup.Result

	mu     sync.Mutex
	calls  []dedup.Message
	sizes  []int // of what was handed over at once
	buried []dedup.Message
	change chan struct{}
}

func newFake(answer func(ctx context.Context, m dedup.Message) dedup.Result) *fake {
	return &fake{answer: answer, change: make(chan struct{})}
}

var applied = dedup.Result{Outcome: dedup.Applied}

func always(context.Context, dedup.Message) dedup.Result { return applied }

func failed(fault store.Fault, text string) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: fault, Err: errors.New(text)}
}

func (f *fake) note(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.change)
	f.change = make(chan struct{})
}

func (f *fake) Process(ctx context.Context, m dedup.Message) dedup.Result {
	f.note(func() { f.calls = append(f.calls, m) })
	return f.answer(ctx, m)
}

func (f *fake) Bury(ctx context.Context, m dedup.Message, reason error) dedup.Result {
	r := dedup.Result{Outcome: dedup.Buried}
	if f.bury != nil {
		r = f.bury(ctx, m, reason)
	}
	if r.Outcome.Settled() {
		f.note(func() { f.buried = append(f.buried, m) })
	}
	return r
}

func (f *fake) several(ctx context.Context, ms []dedup.Message) []dedup.Result {
	f.note(func() { f.sizes = append(f.sizes, len(ms)) })
	var results []dedup.Result
	for _, m := range ms {
		results = append(results, f.Process(ctx, m))
		if !results[len(results)-1].Outcome.Settled() {
			break
		}
	}
	return results
}

// each and batch are fakes that take several messages at once.
type each struct{ *fake }

func (e each) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return e.several(ctx, ms)
}

type batch struct{ *fake }

func (b batch) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return b.several(ctx, ms)
}

// until waits until the condition holds; it is asked after every call.
func (f *fake) until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	limit := time.After(soon)
	for {
		f.mu.Lock()
		ok, change := cond(), f.change
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-change:
		case <-limit:
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Fatalf("%s: not within %s; calls %v, buried %v", what, soon, bodies(f.calls), bodies(f.buried))
		}
	}
}

func (f *fake) untilCalls(t testing.TB, n int) {
	t.Helper()
	f.until(t, fmt.Sprintf("%d calls", n), func() bool { return len(f.calls) >= n })
}

func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bodies(f.calls)
}

// messages returns what was handed over so far.
func (f *fake) messages() []dedup.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func bodies(ms []dedup.Message) []string {
	all := make([]string, len(ms))
	for i, m := range ms {
		all[i] = string(m.Body)
	}
	return all
}

// produce writes values to one partition, in their order.
func produce(t testing.TB, b *servers.Kfake, partition int32, values ...string) {
	t.Helper()
	var rs []*kgo.Record
	for _, v := range values {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	produceRecords(t, b, rs...)
}

func produceRecords(t testing.TB, b *servers.Kfake, rs ...*kgo.Record) {
	t.Helper()
	client := newClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func newClient(t testing.TB, b *servers.Kfake, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Brokers()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func request[R kmsg.Response](t testing.TB, b *servers.Kfake, req kmsg.Request) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	// The versions before topics got ids, which the names are enough for.
	res, err := newClient(t, b, kgo.MaxVersions(kversion.V2_7_0())).Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return res.(R)
}

// committed returns the group's offset of a partition, -1 where there is none.
func committed(t testing.TB, b *servers.Kfake, partition int32) int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	res := request[*kmsg.OffsetFetchResponse](t, b, req)
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			return p.Offset
		}
	}
	return -1
}

// countRequests makes the broker count the requests of a kind, and returns a function that waits until
// so many more have come.
func countRequests(b *servers.Kfake, kind kmsg.Key) (further func(t testing.TB, n int64)) {
	var came atomic.Int64
	b.Cluster.ControlKey(int16(kind), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		came.Add(1)
		return nil, nil, false
	})
	return func(t testing.TB, n int64) {
		t.Helper()
		from := came.Load()
		eventually(t, fmt.Sprintf("%d more requests of kind %s", n, kind.Name()), func() bool { return came.Load() >= from+n })
	}
}

// recordAt reads the record at the offset.
func recordAt(t testing.TB, b *servers.Kfake, partition int32, offset int64) *kgo.Record {
	t.Helper()
	client := newClient(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}))
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil || fetches.NumRecords() == 0 {
		t.Fatalf("the record at %d cannot be read: %v", offset, err)
	}
	return fetches.Records()[0]
}

func untilCommitted(t testing.TB, b *servers.Kfake, partition int32, want int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("offset %d of partition %d committed", want, partition), func() bool {
		return committed(t, b, partition) == want
	})
}

// eventually polls what no signal can be had for: the state of the broker.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for limit := time.Now().Add(soon); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not within %s", what, soon)
		}
	}
}

// logBook is a log that can be searched.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func newLogBook(t testing.TB) (*logBook, kafkasub.Option) {
	b := &logBook{}
	t.Cleanup(func() {
		if t.Failed() {
			b.mu.Lock()
			defer b.mu.Unlock()
			t.Logf("log of the consumer:\n%s", strings.Join(b.lines, ""))
		}
	})
	return b, kafkasub.WithLogger(slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(bytes.Clone(p)))
	return len(p), nil
}

func (b *logBook) has(parts ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return all
}

// slowPolicy leaves time for a rebalance between two attempts.
func slowPolicy(attempts int) consumers.Policy {
	return consumers.Policy{MaxAttempts: attempts, MinDelay: 500 * time.Millisecond, MaxDelay: time.Second}
}
