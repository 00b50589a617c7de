package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// Box is a store that keeps messages: marks and an outbox in one transaction, and the queue
// that relays read. A *pgstore.Store is one, with any of its views.
type Box[TTx any] interface {
	store.Marks[TTx]
	store.Appender[TTx]
	store.Queue
}

// Inbox is the whole of the store-first mode for one kind of work: an intake for a consumer,
// and a relay that does the work. Run as many as there are processes.
type Inbox[TTx any] struct {
	intake *dedup.TxGuard[TTx]
	work   dedup.Processor
	relay  *outbox.Relay
}

// New puts the parts together. Name is the destination of the kept messages, and, with "/inbox"
// behind it, the consumer's name of the intake; it must stay the same over deploys. Key and keep
// are those of the intake's guard, see [dedup.NewTx]. Work is the guard around the handler, on
// the same database or on another one; its marks must be kept longer than a message may wait here,
// parked or not, or it comes [dedup.Late].
//
// The box should be a schema of its own (pgstore.WithSchema): the relay in here knows one
// destination, and relays of one queue must all know all of its destinations. To share a queue, put
// a [Writer] and a [Publisher] together with outbox.NewRelay instead.
//
// New does no I/O.
func New[TTx any](box Box[TTx], name string, key dedup.KeyFunc, keep time.Duration, work dedup.Processor, opts ...Option) (*Inbox[TTx], error) {
	if box == nil {
		return nil, errors.New("inbox: the box is nil: pass a store, such as a *pgstore.Store")
	}
	c := config{limit: 5 * time.Minute, calls: 4, log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("inbox: an option is nil")
		}
		if err := o.apply(&c); err != nil {
			return nil, fmt.Errorf("inbox: %w", err)
		}
	}
	publisher, err := NewPublisher(work, WithLimit(c.limit), WithLogger(c.log))
	if err != nil {
		return nil, err
	}
	relay, err := outbox.NewRelay(box, map[string]outbox.Publisher{name: publisher}, c.relayOptions()...)
	if err != nil {
		return nil, fmt.Errorf("inbox %q: %w", name, err)
	}
	writer, err := NewWriter(box, name, append(c.writer, WithWake(relay.Wake))...)
	if err != nil {
		return nil, err
	}
	intake, err := dedup.NewTxBatch(box, name+"/inbox", key, keep, writer.KeepAllTx, c.intake...)
	if err != nil {
		return nil, fmt.Errorf("inbox %q: %w", name, err)
	}
	return &Inbox[TTx]{intake: intake, work: work, relay: relay}, nil
}

// spare is the time above turn and limit in which work that was cancelled comes back.
const spare = 10 * time.Second

// relayOptions are the user's between those that they may and those that they may not replace.
func (c *config) relayOptions() []outbox.RelayOption {
	opts := []outbox.RelayOption{outbox.WithLogger(c.log), outbox.WithBatch(100)}
	opts = append(opts, c.relay...)
	return append(opts, outbox.WithCalls(c.calls), outbox.WithPublishTimeout(turn+c.limit+spare))
}

// Intake is the processor for a consumer. A message that it has settled is kept, and may be
// acknowledged.
func (i *Inbox[TTx]) Intake() *dedup.TxGuard[TTx] { return i.intake }

// Wake makes the relay look at once, after messages were kept by another process or parked ones
// were retried by hand. It never blocks.
func (i *Inbox[TTx]) Wake() { i.relay.Wake() }

// Run does the work of kept messages until ctx ends; then it begins nothing new, lets what is under
// way finish within the drain limit (outbox.WithDrain, ten seconds), rolls the rest back and
// returns nil, or what was not clean. It needs no consumer in the same process. It returns an
// error at once where the work's guard says that its store is not ready, see [dedup.Checker];
// later outages are waited out.
//
// Run may be called again after it has returned, but not twice at the same time.
func (i *Inbox[TTx]) Run(ctx context.Context) error {
	if c, ok := i.work.(dedup.Checker); ok {
		if err := c.Check(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("inbox: the work's guard: %w", err)
		}
	}
	return i.relay.Run(ctx)
}
