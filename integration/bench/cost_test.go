//go:build unix

package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// gauge is what this process has used up to a moment.
type gauge struct {
	at      time.Time
	cpu     time.Duration // of all its threads
	mallocs uint64
}

func readGauge() gauge {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // never fails for the process itself
	return gauge{time.Now(), time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), memory.Mallocs}
}

// span measures from the first message that comes until so many of them are settled. What
// it takes to join a group or to leave it lies outside.
type span struct {
	want    int64
	settled atomic.Int64

	first, last sync.Once
	from, to    gauge
	n           int64 // settled at the end
	err         error
	over        chan struct{}
}

func newSpan(want int) *span { return &span{want: int64(want), over: make(chan struct{})} }

func (s *span) begin() { s.first.Do(func() { s.from = readGauge() }) }

func (s *span) settle(n int) {
	if after := s.settled.Add(int64(n)); after >= s.want && after-int64(n) < s.want {
		s.last.Do(func() {
			s.to, s.n = readGauge(), after
			close(s.over)
		})
	}
}

// fail ends the wait.
func (s *span) fail(err error) {
	s.last.Do(func() {
		s.err = err
		close(s.over)
	})
}

// await waits for the end and reports what went wrong.
func (s *span) await(b *testing.B, ended <-chan error) {
	b.Helper()
	select {
	case <-s.over:
		if s.err != nil {
			b.Fatal(s.err)
		}
	case err := <-ended:
		b.Fatalf("the consumer ended after %d of %d messages: %v", s.settled.Load(), s.want, err)
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d of %d messages after five minutes", s.settled.Load(), s.want)
	}
}

// spent is what one message took.
type spent struct{ micros, mallocs float64 }

func (a spent) less(b spent) spent { return spent{a.micros - b.micros, a.mallocs - b.mallocs} }

// meter is a contest that also knows what its variants cost this process. Broker and database
// must run in others.
type meter struct {
	*contest
	costs map[string][]spent
}

func newMeter(b *testing.B) *meter { return &meter{newContest(b), map[string][]spent{}} }

func (m *meter) add(name string, run func(s *span), n int) {
	m.contest.add(name, func() (int, time.Duration) {
		runtime.GC()
		s := newSpan(n)
		run(s)
		used := float64(s.n)
		m.costs[name] = append(m.costs[name], spent{
			float64((s.to.cpu - s.from.cpu).Nanoseconds()) / 1e3 / used,
			float64(s.to.mallocs-s.from.mallocs) / used,
		})
		return int(s.n), s.to.at.Sub(s.from.at)
	})
}

// run makes the repetitions and reports the cost of each variant.
func (m *meter) run() {
	m.b.Helper()
	m.contest.run()
	for name := range m.costs {
		m.costs[name] = m.costs[name][1:] // as with the rates, the first one does not count
		m.report(name, m.costs[name])
	}
}

// difference reports what one variant costs more than another.
func (m *meter) difference(label, more, less string) []spent {
	m.b.Helper()
	all := make([]spent, len(m.costs[more]))
	for i := range all {
		all[i] = m.costs[more][i].less(m.costs[less][i])
	}
	m.report(label, all)
	return all
}

// share reports how the CPU time of two things compares.
func (m *meter) share(label string, of, to []spent) {
	ratios := make([]float64, len(of))
	for i := range ratios {
		ratios[i] = of[i].micros / to[i].micros
	}
	m.b.ReportMetric(median(ratios), "cpu:"+label)
}

func (m *meter) report(label string, all []spent) {
	micros, mallocs := make([]float64, len(all)), make([]float64, len(all))
	for i, s := range all {
		micros[i], mallocs[i] = s.micros, s.mallocs
	}
	m.b.ReportMetric(median(micros), label+":cpu-µs/msg")
	m.b.ReportMetric(median(mallocs), label+":allocs/msg")
}

// counted is a guard whose results a span counts. Everything else of it is the guard's own.
type counted[TTx any] struct {
	*dedup.TxGuard[TTx]
	span *span
}

func (c counted[TTx]) Process(ctx context.Context, m dedup.Message) dedup.Result {
	c.span.begin()
	r := c.TxGuard.Process(ctx, m)
	c.count([]dedup.Result{r})
	return r
}

func (c counted[TTx]) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	c.span.begin()
	return c.count(c.TxGuard.ProcessEach(ctx, ms))
}

func (c counted[TTx]) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	c.span.begin()
	return c.count(c.TxGuard.ProcessBatch(ctx, ms))
}

// count takes note of what was applied. A message that is anything else, a duplicate among
// them, spoils the measurement; but what the end of it cancels is nobody's fault.
func (c counted[TTx]) count(results []dedup.Result) []dedup.Result {
	n := 0
	for _, r := range results {
		if r.Outcome == dedup.Applied {
			n++
		}
	}
	if n < len(results) && c.span.settled.Load() < c.span.want {
		c.span.fail(&notApplied{results[len(results)-1]})
	}
	c.span.settle(n)
	return results
}

type notApplied struct{ r dedup.Result }

func (e *notApplied) Error() string {
	if e.r.Err != nil {
		return "a message was " + e.r.Outcome.String() + ": " + e.r.Err.Error()
	}
	return "a message was " + e.r.Outcome.String()
}

// nullProcessor settles whatever it is handed.
type nullProcessor struct{ span *span }

func (p nullProcessor) Process(ctx context.Context, m dedup.Message) dedup.Result {
	return p.ProcessBatch(ctx, []dedup.Message{m})[0]
}

func (p nullProcessor) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return p.ProcessBatch(ctx, ms)
}

func (p nullProcessor) ProcessBatch(_ context.Context, ms []dedup.Message) []dedup.Result {
	p.span.begin()
	p.span.settle(len(ms))
	return allApplied[:len(ms)]
}
