package kafkasub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// fenced is a guard over a store that keeps positions, and what it was handed.
type fenced struct {
	*dedup.TxGuard[*memstore.Tx]
	*fake
	s *memstore.Store
}

func newFenced(t *testing.T, s *memstore.Store) fenced {
	t.Helper()
	f := fenced{fake: newFake(always), s: s}
	guard, err := dedup.NewTx(s.Fenced(), "billing", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if r := f.fake.Process(ctx, m); r.Err != nil {
			return r.Err
		}
		_, err := tx.Add(ctx, "effect of "+string(m.Body), 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.TxGuard = guard
	return f
}

// guarded has the guard's methods alone; the fake only remembers.
type guarded struct{ *dedup.TxGuard[*memstore.Tx] }

func (f fenced) processor() dedup.Processor { return guarded{f.TxGuard} }

// consume runs a consumer until the offset is committed.
func (f fenced) consume(t *testing.T, b *servers.Kfake, until int64, opts ...kafkasub.Option) *logBook {
	t.Helper()
	book, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), f.processor(), append(opts, log)...))
	untilCommitted(t, b, 0, until)
	r.stop(t)
	return book
}

// refuses wants Run to end because the log is another one.
func (f fenced) refuses(t *testing.T, b *servers.Kfake, why string, opts ...kafkasub.Option) {
	t.Helper()
	err := run(t, newConsumer(t, groupConfig(b), f.processor(), opts...)).wait(t)
	if !errors.Is(err, kafkasub.ErrNewLog) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "orders/0: ") {
		t.Errorf("Run = %v, want an ErrNewLog with %q", err, why)
	}
}

// wants compares what the handler was called with.
func (f fenced) wants(t *testing.T, want ...string) {
	t.Helper()
	if got := f.seen(); !slices.Equal(got, want) {
		t.Errorf("handled %q,\nwant %q", got, want)
	}
}

func (f fenced) applied(t *testing.T) store.Applied {
	t.Helper()
	a, err := f.Applied(t.Context(), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The position that was committed with the effects decides where to begin, whatever the group says.
func TestFenceDecidesWhereToBegin(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	produce(t, b, 0, numbered("a", 10)...)
	f.consume(t, b, 10)

	commitOffset(t, b, 0, 4) // as after a crash
	book := f.consume(t, b, 10)
	if !book.has("level=INFO", "the store has applied more than the group has committed", "committed=4", "position=10") {
		t.Error("the difference was not logged")
	}
	f.wants(t, numbered("a", 10)...)

	produce(t, b, 0, numbered("b", 10)...)
	commitOffset(t, b, 0, 15) // as after the database was restored
	book = f.consume(t, b, 20)
	if !book.has("level=WARN", "the group has committed more than the store has applied", "committed=15", "position=10") {
		t.Error("the difference was not logged")
	}
	f.wants(t, append(numbered("a", 10), numbered("b", 10)...)...)

	book = f.consume(t, b, 20)
	if book.has("level=WARN") || book.has("the store has applied more") {
		t.Error("there is something to say although nothing differs")
	}
}

func TestFenceAndMarkersOfTransactions(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	transactional(t, b, kgo.TryCommit, "a0", "a1")
	transactional(t, b, kgo.TryCommit, "b0")
	f.consume(t, b, 5)
	// The group has committed the marker behind the last message. That is no difference.
	if book := f.consume(t, b, 5); book.has("level=WARN") {
		t.Error("a marker was taken for a record that is missing")
	}
	produce(t, b, 0, "c0")
	f.consume(t, b, 6)
	f.wants(t, "a0", "a1", "b0", "c0")
}

func TestMessagesHaveTheEpoch(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	produce(t, b, 0, "m0")
	if _, err := f.RestartFence(t.Context(), topic, 0, store.Applied{Offset: -1}, -1); err != nil {
		t.Fatal(err)
	}
	f.consume(t, b, 1)
	if got := f.messages()[0].Epoch; got != 1 || f.applied(t).Epoch != 1 {
		t.Errorf("the message has epoch %d and the position is %+v, want 1", got, f.applied(t))
	}
}

// The group remembers, the store does not: the store is a new one, or the group used to work
// without positions. Nobody can tell but a person.
func TestPositionThatIsMissingStopsTheConsumer(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 5)...)
	commitOffset(t, b, 0, 3)
	f := newFenced(t, memstore.New())
	f.refuses(t, b, "the group has committed offset 3, but the store has applied nothing")
	if got := committed(t, b, 0); got != 3 {
		t.Errorf("committed %d, want what it was", got)
	}
	// By hand: what the group has done counts.
	if _, err := f.RestartFence(t.Context(), topic, 0, f.applied(t), 2); err != nil {
		t.Fatal(err)
	}
	f.consume(t, b, 5)
	f.wants(t, "m3", "m4")

	f = newFenced(t, memstore.New())
	r := run(t, newConsumer(t, groupConfig(b), f.processor(), kafkasub.WithNewLog(kafkasub.NewLogFromStart)))
	eventually(t, "all is applied", func() bool { return f.applied(t).Offset == 4 })
	r.stop(t)
	f.wants(t, numbered("m", 5)...)
}

func TestLogThatWasMadeAgainOrCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size    int
		found   string
		running bool
	}{
		"shorter":                {4, "it ends at 4, and offset 9 was applied", false},
		"longer":                 {15, "it has another record at offset 9 than the one that was applied", false},
		"as long":                {10, "it has another record at offset 9 than the one that was applied", false},
		"while it runs":          {15, "it has another record before offset 10", true},
		"while it runs, shorter": {4, "it ends at 4, before the position 10", true},
	} {
		for _, policy := range []kafkasub.NewLog{0, kafkasub.StopAtNewLog, kafkasub.NewLogFromStart, kafkasub.NewLogFromEnd} {
			t.Run(name+" "+policy.String(), func(t *testing.T) {
				t.Parallel()
				b := startBroker(t, 1)
				f := newFenced(t, memstore.New())
				var opts []kafkasub.Option
				if policy != 0 {
					opts = append(opts, kafkasub.WithNewLog(policy))
				}
				produce(t, b, 0, numbered("old", 10)...)
				cfg := groupConfig(b)
				cfg.PartitionWatchInterval = time.Minute // or kafka-go begins a new generation
				book, log := newLogBook(t)
				r := run(t, newConsumer(t, cfg, f.processor(), append(opts, log)...))
				untilCommitted(t, b, 0, 10)
				if !c.running {
					r.stop(t)
				}
				deleteTopic(t, b)
				if c.running {
					eventually(t, "the reader has noticed", func() bool { return book.has("Unknown Topic Or Partition") })
				}
				makeTopic(t, b, 1)
				produce(t, b, 0, numbered("new", c.size)...)
				want := numbered("old", 10)
				if !c.running {
					if policy <= kafkasub.StopAtNewLog {
						f.refuses(t, b, c.found, opts...)
						f.wants(t, want...)
						return
					}
					book, log = newLogBook(t)
					r = run(t, newConsumer(t, cfg, f.processor(), append(opts, log)...))
				}
				if policy <= kafkasub.StopAtNewLog {
					if err := r.wait(t); !errors.Is(err, kafkasub.ErrNewLog) || !strings.Contains(err.Error(), c.found) {
						t.Errorf("Run = %v, want an ErrNewLog with %q", err, c.found)
					}
					f.wants(t, want...)
					return
				}
				untilCommitted(t, b, 0, int64(c.size))
				produce(t, b, 0, "later")
				untilCommitted(t, b, 0, int64(c.size)+1)
				r.stop(t)
				if policy == kafkasub.NewLogFromStart {
					want = append(want, numbered("new", c.size)...)
				}
				f.wants(t, append(want, "later")...)
				if a := f.applied(t); a.Epoch != 1 || a.Offset != int64(c.size) {
					t.Errorf("the position is %+v", a)
				}
				if !book.has("level=WARN", "the log is another one than before", c.found) {
					t.Error("nobody was told")
				}
			})
		}
	}
}

// What is at work of the old log when the new one is found is applied first.
func TestNewLogWaitsForWhatIsLeftOfTheOldOne(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	var mended atomic.Bool
	f.fake.answer = func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "old3" && !mended.Load() {
			return failed(store.FaultHandler, "not yet")
		}
		return applied
	}
	produce(t, b, 0, numbered("old", 5)...)
	cfg := groupConfig(b)
	cfg.PartitionWatchInterval = time.Minute
	book, log := newLogBook(t)
	r := run(t, newConsumer(t, cfg, f.processor(), log, kafkasub.WithNewLog(kafkasub.NewLogFromStart), fastPolicy(1_000_000)))
	f.untilCalls(t, 4)
	deleteTopic(t, b)
	eventually(t, "the reader has noticed", func() bool { return book.has("Unknown Topic Or Partition") })
	makeTopic(t, b, 1)
	produce(t, b, 0, numbered("new", 9)...)
	eventually(t, "the new log is found", func() bool { return book.has("the log is another one than before") })
	attempts := len(f.seen())
	f.untilCalls(t, attempts+5)
	if a := f.applied(t); a.Epoch != 0 {
		t.Errorf("the position is %+v while the old log is at work", a)
	}
	mended.Store(true)
	eventually(t, "all is applied", func() bool { a := f.applied(t); return a.Epoch == 1 && a.Offset == 8 })
	r.stop(t)
	if got := slices.Compact(f.seen()); !slices.Equal(got, append(numbered("old", 5), numbered("new", 9)...)) {
		t.Errorf("handled %q", got)
	}
}

// A leader that has just been elected may not know its end for a moment. That is no log that was cut.
func TestLeaderThatDoesNotKnowItsEndYet(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	produce(t, b, 0, numbered("a", 5)...)
	f.consume(t, b, 5)
	var asked atomic.Int64
	b.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		if req.GetVersion() == 1 || asked.Add(1) > 2 { // kafka-go's own has version 1
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range req.(*kmsg.ListOffsetsRequest).Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.Timestamp, rp.Offset = p.Partition, p.Timestamp, 0
				if p.Timestamp == kafka.LastOffset {
					rp.Offset = 2
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
	_, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), f.processor(), log))
	produce(t, b, 0, "b0")
	untilCommitted(t, b, 0, 6)
	r.stop(t)
	if asked.Load() < 2 {
		t.Fatal("the broker was not asked")
	}
	f.wants(t, append(numbered("a", 5), "b0")...)
}

// The log has lost what was applied last: whether it is the same cannot be told, and it goes on.
func TestFenceAndRetention(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	produce(t, b, 0, numbered("a", 10)...)
	f.consume(t, b, 10)
	produce(t, b, 0, numbered("b", 10)...)
	deleteRecords(t, b, 0, 14)
	book := f.consume(t, b, 20)
	if !book.has("level=WARN", "the last message that was applied is no longer in the log", "applied=9", "start=14") ||
		!book.has("removed from the log before they were read", "from=10", "to=14") {
		t.Error("nobody was told")
	}
	f.wants(t, append(numbered("a", 10), "b4", "b5", "b6", "b7", "b8", "b9")...)
}

func TestFenceAndCompaction(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	deleteTopic(t, b)
	policy, ratio := "compact", "0.0"
	if err := b.Cluster.CreateTopic(topic, 1, map[string]string{"cleanup.policy": policy, "min.cleanable.dirty.ratio": ratio, "segment.bytes": "1024"}); err != nil {
		t.Fatal(err)
	}
	f := newFenced(t, memstore.New())
	write := func(from, to int) {
		for i := from; i < to; i++ {
			produceRecords(t, b, &kgo.Record{Topic: topic, Key: []byte("k"), Value: fmt.Append(make([]byte, 300), i)})
		}
	}
	produceRecords(t, b, &kgo.Record{Topic: topic, Key: []byte("stays"), Value: []byte("first")})
	write(1, 5)
	f.consume(t, b, 5)
	write(5, 30)
	b.Cluster.Compact()
	if r := recordAt(t, b, 0, 4); r.Offset == 4 {
		t.Fatal("the broker has not compacted the record away")
	}
	book := f.consume(t, b, 30)
	if !book.has("level=INFO", "has been compacted away", "applied=4") || book.has("level=WARN") {
		t.Error("it was not told as what it is")
	}
	if got := f.messages(); got[len(got)-1].Position.Offset != 29 {
		t.Errorf("the last message is at %d", got[len(got)-1].Position.Offset)
	}
}

// An operator has a partition handled again while the consumer runs.
func TestPositionRestartedOnPurposeIsNoticed(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"with a message": true, "in silence": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			f := newFenced(t, memstore.New())
			produce(t, b, 0, numbered("m", 8)...)
			silence := 50 * time.Millisecond
			if busy {
				silence = time.Hour
			}
			_, log := newLogBook(t)
			r := run(t, newConsumer(t, groupConfig(b), f.processor(), log, kafkasub.WithSilence(silence)))
			untilCommitted(t, b, 0, 8)
			if _, err := f.RestartFence(t.Context(), topic, 0, f.applied(t), 4); err != nil {
				t.Fatal(err)
			}
			want := append(numbered("m", 8), "m5", "m6", "m7")
			if busy {
				produce(t, b, 0, "m8")
				want = append(want, "m8")
			}
			f.until(t, "the messages are handled again", func() bool { return len(f.calls) == len(want) })
			eventually(t, "and committed", func() bool { return committed(t, b, 0) == f.applied(t).Offset+1 })
			r.stop(t)
			f.wants(t, want...)
		})
	}
}

// A processor that is always told that it has lost the position is asked again at a pace.
func TestLostPositionDoesNotSpin(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	p := newFake(func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultBusy, Err: fmt.Errorf("store: %w", store.ErrLost)}
	})
	l := &loser{fake: p}
	r := run(t, newConsumer(t, groupConfig(b), l))
	p.untilCalls(t, 3)
	r.stop(t)
	calls := len(p.seen())
	// The pause doubles from a tenth of a second, and is spread by half of itself.
	if took := l.asked[2].Sub(l.asked[0]); calls > len(l.asked) || took < 150*time.Millisecond {
		t.Errorf("the position was asked for %d times, the first three within %s, and the processor %d times", len(l.asked), took, calls)
	}
}

type loser struct {
	*fake
	asked []time.Time // by the one feed
}

func (l *loser) Fenced() bool { return true }
func (l *loser) Applied(context.Context, string, int) (store.Applied, error) {
	l.asked = append(l.asked, time.Now())
	return store.Applied{Offset: -1}, nil
}
func (l *loser) RestartFence(context.Context, string, int, store.Applied, int64) (store.Applied, error) {
	return store.Applied{}, store.ErrLost
}

// A consumer that begins at the end of the log has nothing applied, and must know where it began.
func TestFenceAndStartAtTheEnd(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	f := newFenced(t, memstore.New())
	produce(t, b, 0, numbered("old", 5)...)
	cfg := groupConfig(b)
	cfg.StartOffset = kafka.LastOffset
	r := run(t, newConsumer(t, cfg, f.processor(), kafkasub.AllowLastOffset()))
	untilCommitted(t, b, 0, 5)
	r.stop(t)
	produce(t, b, 0, "between")
	r = run(t, newConsumer(t, cfg, f.processor(), kafkasub.AllowLastOffset()))
	untilCommitted(t, b, 0, 6)
	r.stop(t)
	f.wants(t, "between")
}
