package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
)

// TxHandlerFunc does the work of one message through tx, the transaction that also holds the
// message's mark. Nil commits both, an error or a panic rolls both back. It may run more
// than once for a message, so everything it does must go through tx: what leaves the
// database goes to the outbox. It must not end tx, use it in another goroutine after
// returning, or keep it.
type TxHandlerFunc[TTx any] func(ctx context.Context, tx TTx, m Message) error

// TxBatchHandlerFunc does the work of several messages, in their order, in one transaction.
// It is called with the messages that are new, at least one. Where it fails, smaller
// batches are tried until the message that fails is alone, so it is run more often than a
// TxHandlerFunc. It may change the slice, and may not keep it.
type TxBatchHandlerFunc[TTx any] func(ctx context.Context, tx TTx, ms []Message) error

// TxGuard makes a handler's effect take place once: effectively once, for what the handler
// writes through the transaction it is given. Each message's mark is set first, in that
// same transaction; the handler runs only where the mark is new. It is safe for
// concurrent use; rivals with the same key wait for each other in the store.
type TxGuard[TTx any] struct {
	marks    store.Marks[TTx]
	consumer string
	key      KeyFunc
	keep     time.Duration
	handle   handling[TTx]
	config   txConfig

	// What the store can do besides. Nil where it cannot, or nobody asked for it.
	burier   store.Burier[TTx]
	keyless  bool // the fences decide alone
	find     func(*Message) store.Origin
	fences   store.Fences
	known    known
	attempts store.Attempts
	reach    *reach
	rooms    sync.Pool // of *room
}

// handling runs the handler for messages that are new. The culprit is the index of the one
// that failed, or nobody.
type handling[TTx any] func(ctx context.Context, tx TTx, ms []Message, runs *runs) (culprit int, err error)

// NewTx makes a guard around a handler of single messages. The consumer's name separates
// it from other handlers of the same messages and must stay the same over deploys. It
// connects to nothing; see [TxGuard.Check].
//
// Keep is how long marks are kept, in the time of the messages: the longest time between
// two messages with one key, counting everything that can bring one back: the topic's or
// stream's retention, committed offsets that expired, a broker restored from a snapshot, letters
// run again by hand. A month is a good beginning, [Forever] is safe and grows. What is delivered
// after its mark may have been removed is [Late] and never run as if it were new.
func NewTx[TTx any](s store.Marks[TTx], consumer string, key KeyFunc, keep time.Duration, h TxHandlerFunc[TTx], opts ...TxOption) (*TxGuard[TTx], error) {
	return newTx(s, consumer, key, keep, h != nil, opts, func(c txConfig) handling[TTx] { return handleEach(h, c.handlerLimit) })
}

// NewTxBatch makes a guard around a handler of many messages at once.
func NewTxBatch[TTx any](s store.Marks[TTx], consumer string, key KeyFunc, keep time.Duration, h TxBatchHandlerFunc[TTx], opts ...TxOption) (*TxGuard[TTx], error) {
	return newTx(s, consumer, key, keep, h != nil, opts, func(c txConfig) handling[TTx] { return handleTogether(h, c.handlerLimit) })
}

func newTx[TTx any](s store.Marks[TTx], consumer string, key KeyFunc, keep time.Duration, haveHandler bool,
	opts []TxOption, handle func(txConfig) handling[TTx]) (*TxGuard[TTx], error) {
	err := checkParts(s != nil, consumer, key, haveHandler)
	if err == nil {
		err = checkKeep(keep)
	}
	if err != nil {
		return nil, fmt.Errorf("dedup: consumer %.40q: %w", consumer, err)
	}
	config, err := newTxConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("dedup: consumer %q: %w", consumer, err)
	}
	g := &TxGuard[TTx]{marks: s, consumer: consumer, key: key, keep: keep, handle: handle(config), config: config}
	g.burier, _ = s.(store.Burier[TTx])
	if g.fences, _ = s.(store.Fences); g.fences != nil {
		g.keyless, g.find = g.fences.Keyless(), g.originOf
	}
	g.attempts, _ = s.(store.Attempts)
	if r, ok := s.(store.Retention); ok && keep < Forever {
		g.reach = newReach(r)
	}
	if config.fingerprint != nil && g.keyless {
		return nil, fmt.Errorf("dedup: consumer %q: WithFingerprint: %T keeps positions and no keys, so nothing would be compared", consumer, s)
	}
	if config.order != nil && g.burier == nil {
		return nil, fmt.Errorf("dedup: consumer %q: WithParking: %T keeps no dead letters, so it cannot keep what waits behind one", consumer, s)
	}
	return g, nil
}

// Check implements [Checker].
func (g *TxGuard[TTx]) Check(ctx context.Context) error {
	_, err := g.scope(ctx)
	return err
}

func (g *TxGuard[TTx]) scope(ctx context.Context) (store.Scope, error) {
	return g.marks.Scope(ctx, g.consumer, g.keep)
}

// Process implements [Processor].
func (g *TxGuard[TTx]) Process(ctx context.Context, m Message) Result {
	return g.ProcessEach(ctx, []Message{m})[0]
}

// ProcessEach implements [EachProcessor]. COMMIT of a message, BEGIN of the next and its mark
// travel together where the store can do that.
func (g *TxGuard[TTx]) ProcessEach(ctx context.Context, ms []Message) []Result {
	began := time.Now()
	results := g.processEach(ctx, ms)
	g.observe(ctx, began, ms, results)
	return results
}

func (g *TxGuard[TTx]) processEach(ctx context.Context, ms []Message) []Result {
	if len(ms) == 0 {
		return nil
	}
	scope, err := g.scope(ctx)
	if err != nil {
		return []Result{g.failed(ctx, err, g.marks.Fault(err))}
	}
	c := chain[TTx]{guard: g, places: g.places(len(ms)), results: make([]Result, 0, len(ms))}
	// Only a handler that ends its goroutine leaves a transaction open here.
	defer func() { c.rollback(ctx) }()

	defer func() { g.note(ctx, scope, ms, c.places, c.results) }()
	keyErr := g.identify(scope, &ms[0], placeAt(c.places, 0), &c.next)
	for i := range ms {
		thisErr := keyErr
		c.this[0] = c.next
		if thisErr != nil {
			c.rollback(ctx)
			return append(c.results, Result{Failed, store.FaultHandler, thisErr})
		}
		var following *identified
		if i+1 < len(ms) {
			if keyErr = g.identify(scope, &ms[i+1], placeAt(c.places, i+1), &c.next); keyErr == nil {
				following = &c.next
			}
		}
		r := c.do(ctx, following)
		c.results = append(c.results, r)
		if !r.Outcome.Settled() {
			return c.results
		}
	}
	return c.results
}

// failed makes a Result of an error, in the light of the caller's context.
func (g *TxGuard[TTx]) failed(ctx context.Context, err error, fault store.Fault) Result {
	switch {
	case IsPermanent(err):
		fault = store.FaultHandler
	case ctx.Err() != nil:
		fault = store.FaultCanceled
	case fault == store.FaultCanceled:
		// A limit of the guard's or the store's own has passed: the store did not answer.
		fault = store.FaultOutage
	}
	return Result{Failed, fault, err}
}

// handlerFailed is failed for an error of the handler's. A context that ended in there while
// the message's own goes on was the handler's own deadline: its failure, and no outage.
func (g *TxGuard[TTx]) handlerFailed(ctx context.Context, err error, fault store.Fault) Result {
	if fault == store.FaultCanceled && ctx.Err() == nil {
		fault = store.FaultHandler
	}
	return g.failed(ctx, err, fault)
}

// notCommitted makes a Result of an end that is not Committed. What is unknown is so whether or
// not the caller's context has ended.
func (g *TxGuard[TTx]) notCommitted(ctx context.Context, end store.End, err error) Result {
	r := g.failed(ctx, err, g.marks.Fault(err))
	if end != store.RolledBack {
		r.Outcome = Unknown
	}
	return r
}

// commitContext outlives the message's context by a limit of its own.
func (g *TxGuard[TTx]) commitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.config.commitLimit)
}

// again decides whether a conflict is tried once more, and waits a little before it, longer
// each time, so that rivals do not meet again in step. No transaction is open here.
func (g *TxGuard[TTx]) again(ctx context.Context, r Result, tries int) bool {
	if r.Fault != store.FaultConflict || tries >= g.config.conflicts {
		return false
	}
	pause := time.NewTimer(rand.N(time.Millisecond << min(tries, 8)))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}
