package outboxtest

import (
	"context"
	"sync/atomic"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// Discard confirms everything at once and counts it. With it a relay runs as fast as its
// queue can.
type Discard struct{ n atomic.Int64 }

var _ outbox.Publisher = (*Discard)(nil)

// Publish confirms all events.
func (d *Discard) Publish(_ context.Context, events []store.Event) []error {
	d.n.Add(int64(len(events)))
	return nil
}

// Count is how many events were confirmed.
func (d *Discard) Count() int64 { return d.n.Load() }
