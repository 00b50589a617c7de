package kafkasub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func TestLanesAreAsManyAsAskedForAndNoMore(t *testing.T) {
	t.Parallel()
	const n = 4
	b := startBroker(t, 1)
	produceKeyed(t, b, 400, 50)
	var at, most atomic.Int64
	all := make(chan struct{})
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		now := at.Add(1)
		defer at.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if now == n {
			select {
			case <-all:
			default:
				close(all)
			}
		}
		<-all // for ever, if they do not run at the same time
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithConcurrency(n)))
	untilCommitted(t, b, 0, 400)
	r.stop(t)
	if most.Load() != n {
		t.Errorf("%d handlers ran at the same time, want %d", most.Load(), n)
	}
}

func TestFailingMessageHoldsBackItsLaneAlone(t *testing.T) {
	t.Parallel()
	const n, keys = 120, 40
	b := startBroker(t, 1)
	produceKeyed(t, b, n, keys)
	var mended atomic.Bool
	order := &orders{}
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "k2-0" && !mended.Load() {
			return failed(store.FaultHandler, "not yet")
		}
		order.note(m)
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), each{p}, fastPolicy(100_000), kafkasub.WithConcurrency(4)))
	full := func() (keys int) {
		order.mu.Lock()
		defer order.mu.Unlock()
		for _, done := range order.ofKey {
			if len(done) == 3 {
				keys++
			}
		}
		return keys
	}
	p.until(t, "the keys of the other lanes are done with", func() bool { return full() >= keys/4 })
	eventually(t, "it is failing at 2", func() bool { got := r.Assigned(); return got[0].Settled == 2 && got[0].Failures > 0 })
	if got := committed(t, b, 0); got > 2 {
		t.Errorf("committed %d beyond the message that is not settled", got)
	}
	order.mu.Lock()
	if got := order.ofKey["k2"]; len(got) > 0 {
		t.Errorf("%v ran before k2-0 was settled", got)
	}
	order.mu.Unlock()
	mended.Store(true)
	untilCommitted(t, b, 0, n)
	r.stop(t)
	order.check(t, n, keys)
	if got := len(p.seen()); got != n+len(p.attempts("k2-0"))-1 {
		t.Errorf("%d calls: others than the failing message ran more than once", got)
	}
}

// One message that fails for long: the lanes beside it get as far as the prefetch and no further.
func TestPrefetchBoundsWhatIsFinishedBehindAFailure(t *testing.T) {
	t.Parallel()
	const prefetch = 24
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 500)...)
	var mended atomic.Bool
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 0 && !mended.Load() {
			return failed(store.FaultOutage, "down")
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), each{p}, kafkasub.WithConcurrency(4), kafkasub.WithPrefetch(prefetch)))
	// Without keys nobody needs to wait for the message, except one that was put behind it.
	p.until(t, "what is within the prefetch", func() bool { return highest(p.calls) >= prefetch-2 })
	p.until(t, "more attempts", func() bool { return count(p.calls, "m0") >= 20 })
	if got := highest(p.messages()); got >= prefetch {
		t.Errorf("offset %d was handled although nothing from 0 on is settled", got)
	}
	mended.Store(true)
	untilCommitted(t, b, 0, 500)
	r.stop(t)
}

func highest(ms []dedup.Message) (offset int64) {
	for _, m := range ms {
		offset = max(offset, m.Position.Offset)
	}
	return offset
}

func count(ms []dedup.Message, body string) (n int) {
	for _, m := range ms {
		if string(m.Body) == body {
			n++
		}
	}
	return n
}

// The broker looks at every commit, with lanes that finish in any order.
func TestLanesCommitOnlyTheContiguousPrefix(t *testing.T) {
	t.Parallel()
	const n = 300
	b := startBroker(t, 1)
	produceKeyed(t, b, n, 60)
	var settled [n]atomic.Bool
	var early, lower atomic.Int64
	var last int64 // of the broker's goroutine
	b.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		offset := req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Offset
		for i := range offset {
			if !settled[i].Load() {
				early.Add(1)
			}
		}
		if offset <= last {
			lower.Add(1)
		}
		last = offset
		return nil, nil, false
	})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		settled[m.Position.Offset].Store(true)
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), each{p}, kafkasub.WithConcurrency(8), kafkasub.WithCommitInterval(time.Millisecond)))
	untilCommitted(t, b, 0, n)
	r.stop(t)
	if early.Load() > 0 || lower.Load() > 0 {
		t.Errorf("%d messages were committed before they were settled, %d commits were not above the one before", early.Load(), lower.Load())
	}
}

// A lane that waits for its batch to fill up must not wait when nothing can come any more because
// the others have used the prefetch up.
func TestLingerEndsWhenThePrefetchIsUsedUp(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	rs := keyed(16, 16) // some for each of the two lanes, or one in 32,000 runs none
	for i := range 300 {
		rs = append(rs, &kgo.Record{Topic: topic, Key: []byte("hot"), Value: fmt.Append(nil, i)})
	}
	produceRecords(t, b, rs...)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), batch{p}, kafkasub.WithConcurrency(2), kafkasub.WithBatch(20, time.Hour), kafkasub.WithPrefetch(50)))
	p.untilCalls(t, 270)
	eventually(t, "most is committed", func() bool { return committed(t, b, 0) > 200 })
	r.stop(t)
	if most := slices.Max(p.sizes); most != 20 {
		t.Errorf("the largest batch has %d messages, want 20", most)
	}
}

func TestBatchesOfLanesHoldOneLaneEach(t *testing.T) {
	t.Parallel()
	const n, keys = 400, 40
	b := startBroker(t, 1)
	produceKeyed(t, b, n, keys)
	var mu sync.Mutex
	with := map[string]map[string]bool{} // keys that were in one batch
	order := &orders{}
	f := newFake(func(_ context.Context, m dedup.Message) dedup.Result { order.note(m); return applied })
	r := run(t, newConsumer(t, groupConfig(b), spying{batch{f}, func(ms []dedup.Message) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range ms {
			if with[string(m.Key)] == nil {
				with[string(m.Key)] = map[string]bool{}
			}
			for _, other := range ms {
				with[string(m.Key)][string(other.Key)] = true
			}
		}
	}}, kafkasub.WithConcurrency(4), kafkasub.WithBatch(25, 5*time.Millisecond)))
	untilCommitted(t, b, 0, n)
	r.stop(t)
	order.check(t, n, keys)
	for key, others := range with {
		if len(others) > keys*3/4 {
			t.Errorf("%s was together with %d keys of %d: its batches are not those of one lane in four", key, len(others), keys)
		}
	}
	if slices.Max(f.sizes) > 25 {
		t.Errorf("batches of %v, want 25 at most", f.sizes)
	}
}

type spying struct {
	batch
	see func([]dedup.Message)
}

func (s spying) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	s.see(ms)
	return s.batch.ProcessBatch(ctx, ms)
}

// One lane hangs and ignores its context; what the others have done is kept, and only what is
// not contiguous comes again.
func TestShutdownWithALaneThatHangs(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 10)...)
	goOn, gone := make(chan struct{}), make(chan struct{})
	kept := newMarks()
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 4 {
			<-goOn
			defer close(gone)
			return failed(store.FaultHandler, "too late")
		}
		return kept.apply(ctx, m)
	})
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithConcurrency(3), kafkasub.WithDrain(50*time.Millisecond)))
	p.untilCalls(t, 9) // one may wait behind the one that hangs
	untilCommitted(t, b, 0, 4)
	r.cancel()
	if err := r.wait(t); !errors.Is(err, kafkasub.ErrNotClean) || !strings.Contains(err.Error(), "orders/0 from offset 4 on ignores its cancelled context") {
		t.Errorf("Run = %v", err)
	}
	close(goOn)
	<-gone
	if got := committed(t, b, 0); got != 4 {
		t.Errorf("committed %d, want 4", got)
	}
	next := newFake(kept.apply)
	r = run(t, newConsumer(t, groupConfig(b), next, kafkasub.WithConcurrency(3)))
	untilCommitted(t, b, 0, 10)
	r.stop(t)
	if kept.count() != 10 {
		t.Errorf("%d applied, want 10", kept.count())
	}
}

// A topic that is made again, gaps and transaction markers, while lanes are behind and ahead of them.
func TestLanesGoThroughLogRestartsGapsAndMarkers(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	old := time.UnixMilli(1_600_000_000_000)
	for i := range 6 {
		produceRecords(t, b, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "old%d", i), Timestamp: old})
	}
	transactional(t, b, kgo.TryCommit, "tx0", "tx1") // 6, 7 and the marker 8
	deleteRecords(t, b, 0, 2)
	commitOffset(t, b, 0, 1)
	hold := make(chan struct{})
	kept := newMarks()
	p := newFake(func(ctx context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "old4" {
			<-hold
		}
		return kept.apply(ctx, m)
	})
	book, log := newLogBook(t)
	cfg := groupConfig(b)
	cfg.PartitionWatchInterval = time.Minute
	r := run(t, newConsumer(t, cfg, p, log, kafkasub.WithConcurrency(4)))
	untilCommitted(t, b, 0, 4)
	if !book.has("removed from the log before they were read", "from=1", "to=2") {
		t.Error("the gap was not reported")
	}
	// The log is made again while one of its messages is still at work.
	deleteTopic(t, b)
	eventually(t, "the reader has noticed", func() bool { return book.has("Unknown Topic Or Partition") })
	makeTopic(t, b, 1)
	produceKeyed(t, b, 3, 3) // shorter than what was committed of the old one
	p.until(t, "new records run beside the old one", func() bool { return slices.ContainsFunc(bodies(p.calls), isNew) })
	if got := committed(t, b, 0); got > 0 {
		t.Errorf("committed %d of the new log before the old one is settled", got)
	}
	close(hold)
	untilCommitted(t, b, 0, 3)
	r.stop(t)
	if kept.count() != 6+3 {
		t.Errorf("%d applied of 6 and 3: %v", kept.count(), p.seen())
	}
}

func isNew(body string) bool { return strings.HasPrefix(body, "k") }
