package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// guard is what consumers use of a dedup.TxGuard.
type guard interface {
	dedup.EachProcessor
	dedup.BatchProcessor
	dedup.Burier
	dedup.Checker
}

// witness stands between a consumer and its guard and reports every result after the guard
// has committed and before the consumer acknowledges. So every acknowledged message has been
// reported; one that is committed and unreported when the process is killed comes again.
type witness struct {
	guard
	reporter *reporter
	identity []string // The headers of which one has the id.
}

func (w *witness) Process(ctx context.Context, m dedup.Message) dedup.Result {
	began := time.Now()
	r := w.guard.Process(ctx, m)
	w.tell(began, []dedup.Message{m}, []dedup.Result{r})
	return r
}

func (w *witness) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	began := time.Now()
	rs := w.guard.ProcessEach(ctx, ms)
	w.tell(began, ms, rs)
	return rs
}

func (w *witness) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	began := time.Now()
	rs := w.guard.ProcessBatch(ctx, ms)
	w.tell(began, ms, rs)
	return rs
}

func (w *witness) Bury(ctx context.Context, m dedup.Message, reason error) dedup.Result {
	began := time.Now()
	r := w.guard.Bury(ctx, m, reason)
	w.tell(began, []dedup.Message{m}, []dedup.Result{r})
	return r
}

func (w *witness) tell(began time.Time, ms []dedup.Message, rs []dedup.Result) {
	ended := time.Now().UnixNano()
	reports := make([]report, len(rs))
	for i, r := range rs {
		p := ms[i].Position
		reports[i].Seen = &sighting{
			place:   place{Via: p.Broker, Partition: p.Partition, Offset: p.Offset},
			ID:      w.id(ms[i]),
			Outcome: r.Outcome.String(),
			Began:   began.UnixNano(), Ended: ended,
		}
	}
	if err := w.reporter.tell(reports...); err != nil {
		// Nobody listens any more: the first process is gone, and without it nothing that is
		// done here can be accounted for.
		fmt.Fprintln(os.Stderr, "quickstart: report:", err)
		os.Exit(1)
	}
}

func (w *witness) id(m dedup.Message) string {
	for _, name := range w.identity {
		if v, ok := m.Header(name); ok {
			return string(v)
		}
	}
	return ""
}
