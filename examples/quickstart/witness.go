package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// witness reports every result after the guard has committed and before the consumer
// acknowledges. So every acknowledged message has been reported; one that is committed and
// unreported when the process is killed comes again.
type witness struct {
	reporter *reporter
	identity []string // The headers of which one has the id.
}

func (w *witness) observe(_ context.Context, o dedup.Observation) {
	ended := time.Now()
	reports := make([]report, len(o.Results))
	for i, r := range o.Results {
		p := o.Messages[i].Position
		reports[i].Seen = &sighting{
			place:   place{Via: p.Broker, Partition: p.Partition, Offset: p.Offset},
			ID:      w.id(o.Messages[i]),
			Outcome: r.Outcome.String(),
			Began:   ended.Add(-o.Took).UnixNano(), Ended: ended.UnixNano(),
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
