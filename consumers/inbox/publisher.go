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

// Publisher does the work of kept messages: it is what a relay is given as the publisher of a
// [Writer]'s destination. It hands each message to a [dedup.Processor], whose guard marks
// it in the transaction of the work, so that what the relay repeats is done once.
//
// A message is confirmed, and removed by the relay, when its result is settled. Else:
//
//	failed: the handler's error,      refused: an attempt; outbox.WithRetry says how many there are
//	a panic, the limit of [WithLimit] and in which pauses, and dedup.RetryAfter lengthens one
//	failed: permanent, a bad key,     refused for good: parked at once
//	mismatched, late
//	failed: conflict, busy, outage    no attempt: tried again in growing pauses, see
//	unknown                           outbox.WithProbe; the lane of the message waits
//	failed: setup                     the same, and logged as an error
//	the relay stops                   no attempt: rolled back, and given back
//	the relay's publish timeout       no attempt: rolled back, and tried again without end
//
// The last line is a mistake of configuration: give the work a limit, and the relay a publish
// timeout that is above it, as [New] does.
//
// Parked is the state of the outbox: the message stays where it is, visibly, and those of its
// ordering key wait behind it in order, until a person retries or discards it
// ([store.OutboxAdmin]). It is not buried as the broker consumers do. A relay parks what has used
// up its attempts anyhow, so there is one place to look at, and order holds without a
// guard that parks keys.
//
// A handler that ignores the end of its context keeps its lane and one of the relay's calls until it
// returns; nothing runs beside it. A Publisher is safe for concurrent use.
type Publisher struct {
	work  dedup.Processor
	limit time.Duration
	log   *slog.Logger
	tries attempts
}

var (
	_ outbox.Publisher = (*Publisher)(nil)
	_ outbox.Splitter  = (*Publisher)(nil)
)

// NewPublisher returns a publisher over the processor that does the work, usually a guard. It
// does no I/O. A guard with a position fence is refused: it needs the order of a partition,
// and here messages come in the order of their keys.
func NewPublisher(work dedup.Processor, opts ...PublisherOption) (*Publisher, error) {
	if work == nil {
		return nil, errors.New("inbox: the processor is nil: pass the guard around the work, such as dedup.NewTx makes")
	}
	if f, ok := work.(dedup.Fencer); ok && f.Fenced() {
		return nil, errors.New("inbox: the processor keeps positions and no keys will do: it needs messages in the order of their partition, and kept ones come in the order of their keys; use a store without a fence for the work")
	}
	p := &Publisher{work: work, log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("inbox: an option is nil")
		}
		if err := o.applyPublisher(p); err != nil {
			return nil, fmt.Errorf("inbox: %w", err)
		}
	}
	return p, nil
}

// SplitByTopic implements [outbox.Splitter]: the topics are lanes, and one that hangs says
// nothing about the next.
func (*Publisher) SplitByTopic() {}

// turn is how long one call goes on beginning messages. A call has one deadline, so without an
// end to it the last of its messages would be left with what the others have not used.
const turn = time.Second

// Publish implements [outbox.Publisher]. The events of one call are worked on one after another.
func (p *Publisher) Publish(ctx context.Context, events []store.Event) []error {
	errs := make([]error, len(events))
	began := time.Now()
	stopped := map[string]bool{}
	over := false
	for i := range events {
		e := &events[i]
		over = over || ctx.Err() != nil || i > 0 && time.Since(began) > turn
		if over || e.Key != nil && stopped[string(e.Key)] {
			errs[i] = outbox.ErrNotSent
			continue
		}
		errs[i] = p.do(ctx, e)
		switch outbox.VerdictOf(errs[i]) {
		case outbox.Confirmed:
		case outbox.RefusedOnce, outbox.RefusedForGood:
			stopped[string(e.Key)] = true
		default:
			// The store is in trouble, or a lock is held: whoever comes next meets the same.
			over = true
		}
	}
	return errs
}

// do works on one message.
func (p *Publisher) do(ctx context.Context, e *store.Event) error {
	m, err := Message(*e)
	if errors.Is(err, ErrNewer) {
		p.log.Error("a kept message cannot be read: it waits for a newer program", "id", e.ID.String(), "error", err)
		return plain(err)
	}
	if err != nil {
		return outbox.Permanent(plain(err))
	}
	m.Attempt = p.tries.next(e.ID)
	work, cancel := ctx, context.CancelFunc(func() {})
	if p.limit > 0 {
		work, cancel = context.WithTimeout(ctx, p.limit)
	}
	defer cancel()
	r := p.process(work, m)
	err = p.verdict(ctx, work, e, r)
	if v := outbox.VerdictOf(err); v == outbox.RefusedOnce {
		p.tries.fail(e.ID)
	} else if v == outbox.Confirmed || v == outbox.RefusedForGood {
		p.tries.forget(e.ID)
	}
	return err
}

// process calls the processor in a goroutine of its own and waits for it. A handler that ends
// its goroutine would otherwise end the relay's, and a call that never returned must not be taken
// for one that confirmed. A guard contains panics; what panics all the same is an error.
func (p *Publisher) process(ctx context.Context, m dedup.Message) (r dedup.Result) {
	r = dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: errors.New("the handler ended its goroutine")}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if v := recover(); v != nil {
				r.Err = fmt.Errorf("the processor panicked: %v", v)
			}
		}()
		r = p.work.Process(ctx, m)
	}()
	<-ended
	return r
}

// verdict says to the relay what a result means. Ctx is that of the call, work that of the message.
func (p *Publisher) verdict(ctx, work context.Context, e *store.Event, r dedup.Result) error {
	err := plain(r.Err)
	switch {
	case r.Outcome.Settled():
		return nil
	case r.Outcome == dedup.Unknown:
		return err
	case r.Outcome == dedup.Mismatched, r.Outcome == dedup.Late:
		return outbox.Permanent(err)
	}
	switch r.Fault {
	case store.FaultHandler:
		if dedup.IsPermanent(r.Err) {
			return outbox.Permanent(err)
		}
		if d, ok := dedup.RetryDelay(r.Err); ok {
			err = outbox.RetryAfter(min(max(d, 0), longestDelay), err)
		}
		return outbox.Refused(err)
	case store.FaultCanceled:
		return p.cut(ctx, work, e, err)
	case store.FaultSetup:
		p.log.Error("the work's store is not ready for use: nothing is done until a person has set it up", "id", e.ID.String(), "error", r.Err)
	}
	return err
}

// longestDelay bounds what a handler may ask for: a message that was put off for longer than
// marks are usually kept would be late.
const longestDelay = 30 * 24 * time.Hour

// cut is the verdict of work that was cancelled and rolled back.
func (p *Publisher) cut(ctx, work context.Context, e *store.Event, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return outbox.ErrNotSent // the relay stops
	case ctx.Err() != nil:
		p.log.Error("the relay's publish timeout has cut the work short: it must be above what the work may take, see WithLimit", "id", e.ID.String())
		return fmt.Errorf("inbox: rolled back at the end of the relay's publish timeout: %w", err)
	case work.Err() != nil:
		return outbox.Refused(fmt.Errorf("inbox: rolled back: the work was not done within the limit of %s: %w", p.limit, err))
	}
	return err
}

// plain keeps the text of an error, and of a panic its place, and nothing of its kind: an error of
// a handler may wrap one that says something to a relay.
func plain(err error) error {
	if err == nil {
		return errors.New("inbox: failed without an error")
	}
	text := err.Error()
	var p *dedup.PanicError
	if errors.As(err, &p) {
		text += "\n\n" + string(p.Stack)
	}
	return errors.New(text[:min(len(text), longestReason)])
}

const longestReason = 16 << 10
