package kafkasub

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// bare is a partition without a group and a broker, whose lanes settle what they get at once.
func bare(lanes int) (p *partition, stop func()) {
	conf := newConfig([]Option{WithConcurrency(lanes)})
	log := slog.New(slog.DiscardHandler)
	p = &partition{
		at: place{"orders", 0}, conf: &conf, feed: &feed{}, log: log, tracker: newTracker(conf.prefetch), room: make(chan struct{}, 1),
		commits: newCommits(nil, time.Hour, func(func()) {}, log),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range lanes {
		results := make([]dedup.Result, conf.prefetch)
		for i := range results {
			results[i].Outcome = dedup.Applied
		}
		l := &lane{
			partition: p, conf: &conf, gate: &gate{}, log: log, limit: 1, done: make(chan struct{}), wake: make(chan struct{}, 1),
			process: func(_ context.Context, ms []dedup.Message) []dedup.Result { return results[:len(ms)] },
		}
		p.lanes = append(p.lanes, l)
		running.Go(func() { _ = l.run(ctx, ctx) })
	}
	return p, func() { cancel(); running.Wait() }
}

// pump sends n messages through the partition and waits for them.
func pump(ctx context.Context, p *partition, from, n int64, keys [][]byte) {
	for i := from; i < from+n; i++ {
		p.admit(ctx, item{kind: data, end: -1, m: dedup.Message{Topic: "orders", Key: keys[i%int64(len(keys))], Position: dedup.Position{Log: "orders", Offset: i}}})
	}
	p.drained(ctx)
}

func someKeys() [][]byte {
	keys := make([][]byte, 64)
	for i := range keys {
		keys[i] = binary.BigEndian.AppendUint64(nil, uint64(i))
	}
	return keys
}

func TestLanesAllocateNothingPerMessage(t *testing.T) {
	for _, lanes := range []int{1, 8} {
		p, stop := bare(lanes)
		keys, from := someKeys(), int64(0)
		const n = 10_000
		send := func() { pump(t.Context(), p, from, n, keys); from += n }
		send() // the queues grow
		if allocs := testing.AllocsPerRun(5, send); allocs > n/50 {
			t.Errorf("%d lanes: %.0f allocations for %d messages", lanes, allocs, n)
		}
		if got := p.settled.Load(); got != from {
			t.Errorf("%d lanes: settled up to %d, want %d", lanes, got, from)
		}
		stop()
	}
}

// What stands between a feed and a processor.
func BenchmarkLanes(b *testing.B) {
	for _, lanes := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(lanes), func(b *testing.B) {
			p, stop := bare(lanes)
			defer stop()
			b.ReportAllocs()
			b.ResetTimer()
			pump(b.Context(), p, 0, int64(b.N), someKeys())
		})
	}
}
