package kafkasub_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
)

// commitOffset sets the group's offset, as a tool or another version of a program would.
func commitOffset(t *testing.T, b *servers.Kfake, partition int32, offset int64) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	for _, t2 := range request[*kmsg.OffsetCommitResponse](t, b, req).Topics {
		for _, p := range t2.Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("commit of offset %d: error %d", offset, p.ErrorCode)
			}
		}
	}
}

func deleteRecords(t *testing.T, b *servers.Kfake, partition int32, before int64) {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 1000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	for _, t2 := range request[*kmsg.DeleteRecordsResponse](t, b, req).Topics {
		for _, p := range t2.Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("delete records before %d: error %d", before, p.ErrorCode)
			}
		}
	}
}

func deleteTopic(t *testing.T, b *servers.Kfake) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 1000
	req.TopicNames = []string{topic}
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	request[*kmsg.DeleteTopicsResponse](t, b, req)
}

func makeTopic(t *testing.T, b *servers.Kfake, partitions int) {
	t.Helper()
	if err := b.CreateTopic(context.Background(), topic, partitions); err != nil {
		t.Fatal(err)
	}
}

func TestGapAtTheLogStartIsReportedAndReadingGoesOn(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 10)...)
	commitOffset(t, b, 0, 2)
	deleteRecords(t, b, 0, 7)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log))
	untilCommitted(t, b, 0, 10)
	r.stop(t)
	if got := p.seen(); !slices.Equal(got, []string{"m7", "m8", "m9"}) {
		t.Errorf("handled %v, want what the log still has", got)
	}
	if !book.has("level=WARN", "removed from the log before they were read", "from=2", "to=7", "missing=5", "partition=0") {
		t.Error("the gap was not reported")
	}
}

func TestNewGroupOnALogThatHasLostItsBeginningReportsNoGap(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 5)...)
	deleteRecords(t, b, 0, 3)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log))
	untilCommitted(t, b, 0, 5)
	r.stop(t)
	if book.has("removed from the log") {
		t.Error("a gap was reported for a group that had no position")
	}
}

// The log's start overtakes a consumer that is at work.
func TestGapThatOpensWhileConsumingIsReported(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	entered, goOn := make(chan struct{}), make(chan struct{})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 0 {
			close(entered)
			<-goOn
		}
		return applied
	})
	book, log := newLogBook(t)
	// The reader must not have the records yet that are removed.
	hold := holdFetches(b, 1)
	r := run(t, newConsumer(t, groupConfig(b), p, log, kafkasub.WithFetch(0, 0, time.Second)))
	<-entered
	release := hold()
	produce(t, b, 0, numbered("n", 9)...)
	deleteRecords(t, b, 0, 6)
	release()
	close(goOn)
	untilCommitted(t, b, 0, 10)
	r.stop(t)
	if !book.has("removed from the log before they were read", "from=1", "to=6") {
		t.Errorf("the gap was not reported; handled %v", p.seen())
	}
}

// holdFetches returns a function that makes the broker answer as if its log ended at the offset. That
// function returns when no fetch is under way any more that could get another answer, with the one that ends it.
func holdFetches(b *servers.Kfake, end int64) (hold func() (release func())) {
	var on atomic.Bool
	held := make(chan struct{}, 1)
	b.Cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		if !on.Load() {
			return nil, nil, false
		}
		select {
		case held <- struct{}{}:
		default:
		}
		return nothingNew(req, end), nil, true
	})
	return func() func() {
		on.Store(true)
		<-held
		return func() { on.Store(false) }
	}
}

// nothingNew is the answer of a broker whose log ends at the offset.
func nothingNew(req kmsg.Request, end int64) kmsg.Response {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.(*kmsg.FetchRequest).Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.HighWatermark, rp.LastStableOffset = p.Partition, end, end
			rp.RecordBatches = []byte{}
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

// kafka-go jumps over a gap without a word if it opens between our look at the log and its own.
func TestGapThatOpensWhileTheReaderStartsIsReported(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 10)...)
	commitOffset(t, b, 0, 1)
	b.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if req.GetVersion() != 1 { // ours has a later one
			b.Cluster.KeepControl()
			return nil, nil, false
		}
		b.Cluster.SleepControl(func() { deleteRecords(t, b, 0, 6) })
		return nil, nil, false
	})
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log))
	untilCommitted(t, b, 0, 10)
	r.stop(t)
	if got := p.seen(); !slices.Equal(got, []string{"m6", "m7", "m8", "m9"}) {
		t.Errorf("handled %v", got)
	}
	if !book.has("removed from the log before they were read", "from=1", "to=6") {
		t.Error("the gap was not reported")
	}
}

func TestReaderThatIsSilentAlthoughTheLogGoesOnIsReplaced(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	hold := holdFetches(b, 1)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log, kafkasub.WithSilence(300*time.Millisecond), kafkasub.WithFetch(0, 0, time.Second)))
	p.untilCalls(t, 1)
	release := hold()
	produce(t, b, 0, "m1")
	eventually(t, "the silence is reported", func() bool { return book.has("silent; the reader is replaced", "position=1", "its log ends at 2") })
	release()
	p.untilCalls(t, 2)
	r.stop(t)
}

// looksAtTheEnd waits until the only partition was silent for so many times, and the log has been found to
// end there each time, which counts as progress. Two times are enough to suspect it.
func looksAtTheEnd(t *testing.T, r *running, n int) {
	t.Helper()
	for range n {
		since := time.Now()
		eventually(t, "a look at the end of the log", func() bool {
			a := r.Assigned()
			return len(a) == 1 && a[0].LastProgress.After(since)
		})
	}
}

func TestQuietPartitionIsNotMistakenForAFault(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log, kafkasub.WithSilence(50*time.Millisecond)))
	looksAtTheEnd(t, r, 4)
	produce(t, b, 0, "m")
	p.untilCalls(t, 1)
	r.stop(t)
	if book.has("level=WARN") {
		t.Error("warnings about a partition that is merely quiet")
	}
}

func TestPositionBehindTheEndOfTheLogRestartsItAndIsCommitted(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 3)...)
	commitOffset(t, b, 0, 500)
	book, log := newLogBook(t)
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		<-ctx.Done()
		return dedup.Result{Outcome: dedup.Failed, Fault: 6, Err: ctx.Err()}
	})
	r := run(t, newConsumer(t, groupConfig(b), p, log, kafkasub.WithDrain(10*time.Millisecond)))
	p.untilCalls(t, 1)
	if !book.has("level=WARN", "reading it from its start", "it ends at 3, before the position 500", "start=0", "end=3") {
		t.Error("the restart was not reported")
	}
	// Before anything is settled: if this process dies now and the log grows past 500, the
	// next owner must not begin there.
	untilCommitted(t, b, 0, 0)
	r.cancel()
	_ = r.wait(t) // not clean: the handler was cancelled
	p = newFake(always)
	r = run(t, newConsumer(t, groupConfig(b), p))
	untilCommitted(t, b, 0, 3)
	r.stop(t)
}

// The records of the new log have the offsets of the old one, and another time.
func TestTopicThatIsMadeAgainIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{true, false} {
		name := map[bool]string{true: "while the consumer is stopped", false: "while the consumer runs"}[stopped]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			old := time.UnixMilli(1_600_000_000_000)
			for _, v := range numbered("old", 5) {
				produceRecords(t, b, &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: old})
			}
			kept := newMarks()
			p := newFake(kept.apply)
			book, log := newLogBook(t)
			cfg := groupConfig(b)
			if !stopped {
				// The reader has to notice by itself, before a new log has grown past the position.
				cfg.PartitionWatchInterval = time.Minute
			}
			r := run(t, newConsumer(t, cfg, p, log))
			untilCommitted(t, b, 0, 5)
			if stopped {
				r.stop(t)
			}
			deleteTopic(t, b)
			if !stopped {
				eventually(t, "the reader has noticed", func() bool { return book.has("Unknown Topic Or Partition") })
			}
			makeTopic(t, b, 1)
			produce(t, b, 0, numbered("new", 7)...) // longer than the old one
			if stopped {
				r = run(t, newConsumer(t, cfg, p, log))
			}
			p.until(t, "the new records", func() bool { return len(p.calls) >= 12 })
			untilCommitted(t, b, 0, 7)
			r.stop(t)
			if got := p.seen(); !slices.Equal(got, append(numbered("old", 5), numbered("new", 7)...)) || kept.count() != 12 {
				t.Errorf("handled %v, %d applied", got, kept.count())
			}
			if a, b := p.calls[0].Position, p.calls[5].Position; a.Offset != b.Offset || a.Time.Equal(b.Time) {
				t.Errorf("positions %+v and %+v, want one offset and two times", a, b)
			}
		})
	}
}

// kafka-go assigns nothing while one of several topics is missing. That must not look like peace.
func TestMissingTopicAmongOthersIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	if err := b.CreateTopic(context.Background(), "payments", 1); err != nil {
		t.Fatal(err)
	}
	cfg := groupConfig(b)
	cfg.Topics = append(cfg.Topics, "payments")
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, log))
	eventually(t, "both topics are assigned", func() bool { return len(r.Assigned()) == 2 })
	deleteTopic(t, b)
	eventually(t, "the topic is missed", func() bool {
		return book.has("level=WARN", "the group cannot settle", "orders", "does not exist")
	})
	makeTopic(t, b, 1)
	produce(t, b, 0, "order")
	produceRecords(t, b, &kgo.Record{Topic: "payments", Value: []byte("payment")})
	p.untilCalls(t, 2)
	r.stop(t)
}

// The topic comes back after the partitions were assigned and before kafka-go begins to watch for
// changes: it sees none, and would be content with nothing for ever.
func TestTopicThatComesBackWhileTheGroupIsJoinedIsNotOverlooked(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	cfg := groupConfig(b)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, log))
	eventually(t, "the topic is assigned", func() bool { return len(r.Assigned()) == 1 })
	var armed, back atomic.Bool
	b.Cluster.ControlKey(int16(kmsg.SyncGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		// It carries the assignment, which was made while the topic was missing.
		b.Cluster.KeepControl()
		if armed.Load() && back.CompareAndSwap(false, true) {
			b.Cluster.SleepControl(func() { makeTopic(t, b, 1) })
		}
		return nil, nil, false
	})
	deleteTopic(t, b)
	eventually(t, "the topic is missed", func() bool { return book.has("level=WARN", "the group cannot settle") })
	armed.Store(true)
	eventually(t, "the topic is back", back.Load)
	eventually(t, "the topic is assigned again", func() bool { return len(r.Assigned()) == 1 })
	produce(t, b, 0, "m")
	p.untilCalls(t, 1)
	r.stop(t)
}

func transactional(t *testing.T, b *servers.Kfake, end kgo.TransactionEndTry, values ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	client := newClient(t, b, kgo.TransactionalID("writer"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.EndTransaction(ctx, end); err != nil {
		t.Fatal(err)
	}
	client.Close()
}

func TestTransactionMarkersReachNoHandlerAndCountForTheOffset(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*fake) (dedup.Processor, []kafkasub.Option){
		"each": func(f *fake) (dedup.Processor, []kafkasub.Option) { return each{f}, nil },
		"batch": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return batch{f}, []kafkasub.Option{kafkasub.WithBatch(3, 0)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			transactional(t, b, kgo.TryCommit, "a0", "a1") // offsets 0, 1 and the marker 2
			transactional(t, b, kgo.TryAbort, "b0")        // 3, 4
			transactional(t, b, kgo.TryCommit, "c0")       // 5, 6
			f := newFake(always)
			p, opts := wrap(f)
			_, log := newLogBook(t)
			r := run(t, newConsumer(t, groupConfig(b), p, append(opts, log)...))
			untilCommitted(t, b, 0, 7)
			r.stop(t)
			// b0 was aborted. kafka-go delivers it all the same; this line is here to notice
			// when that changes, and the documentation with it.
			if got := f.seen(); !slices.Equal(got, []string{"a0", "a1", "b0", "c0"}) {
				t.Errorf("handled %q", got)
			}
		})
	}
}

// Data that has the very bytes of a marker is data.
func TestDataThatLooksLikeAMarkerIsHandled(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	key := binary.BigEndian.AppendUint32(nil, 1)
	value := make([]byte, 6)
	transactional(t, b, kgo.TryCommit, "before")
	produceRecords(t, b, &kgo.Record{Topic: topic, Key: key, Value: value}, &kgo.Record{Topic: topic, Value: []byte("after")})
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p))
	untilCommitted(t, b, 0, 4)
	r.stop(t)
	if got := p.seen(); !slices.Equal(got, []string{"before", string(value), "after"}) {
		t.Errorf("handled %q", got)
	}
}

// The records of an open transaction are not read before it ends.
func TestOpenTransactionIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	client := newClient(t, b, kgo.TransactionalID("writer"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produce(t, b, 0, "before")
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("open")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log, kafkasub.WithSilence(50*time.Millisecond)))
	p.untilCalls(t, 1)
	looksAtTheEnd(t, r, 4)
	if got := p.seen(); !slices.Equal(got, []string{"before"}) {
		t.Errorf("handled %q while the transaction was open", got)
	}
	if book.has("silent") {
		t.Error("the open transaction was taken for a fault")
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	untilCommitted(t, b, 0, 3)
	r.stop(t)
	if got := p.seen(); !slices.Equal(got, []string{"before", "open"}) {
		t.Errorf("handled %q", got)
	}
}
