package dedup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// HandlerFunc does the work of one message where it cannot share a transaction with the
// mark. Its context ends when the lease is lost, and when it can no longer be known to be
// held because the store has not answered for the length of a lease. [Message.FencingToken] lets the place of the
// effect refuse a holder that was overtaken.
type HandlerFunc func(ctx context.Context, m Message) error

// Guard lets one holder at a time work on a message, and nobody after it is done. It is for
// effects outside of the database that holds the marks, and its promise is weaker than that
// of a [TxGuard]: a process that dies between the effect and the record of it leaves a
// message that is handled again when the lease has run out: at least once, one at a time.
// It is safe for concurrent use.
type Guard struct {
	leases   store.Leases
	consumer string
	key      KeyFunc
	handle   HandlerFunc
	config   leaseConfig
}

// Option configures [New].
type Option interface{ applyLease(*leaseConfig) }

type leaseConfig struct {
	lease time.Duration
	keep  time.Duration
}

type leaseOption func(*leaseConfig)

func (f leaseOption) applyLease(c *leaseConfig) { f(c) }

// WithLease says how long a holder that has died blocks its message. While the handler runs
// the lease is extended at a third of it. The default is 30 seconds.
func WithLease(d time.Duration) Option {
	return leaseOption(func(c *leaseConfig) { c.lease = d })
}

// WithKeep says how long a message that is done is remembered. It must be longer than the
// longest time after which the message can be delivered again. The default is 7 days.
func WithKeep(d time.Duration) Option {
	return leaseOption(func(c *leaseConfig) { c.keep = d })
}

// New makes a guard around a handler, on a store of leases.
func New(s store.Leases, consumer string, key KeyFunc, h HandlerFunc, opts ...Option) (*Guard, error) {
	g := &Guard{leases: s, consumer: consumer, key: key, handle: h, config: leaseConfig{30 * time.Second, 7 * 24 * time.Hour}}
	if err := checkParts(s != nil, consumer, key, h != nil); err != nil {
		return nil, fmt.Errorf("dedup: consumer %.40q: %w", consumer, err)
	}
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("dedup: consumer %q: an option is nil", consumer)
		}
		o.applyLease(&g.config)
	}
	switch c := g.config; {
	case c.lease < 100*time.Millisecond:
		return nil, fmt.Errorf("dedup: consumer %q: WithLease(%s): 100ms is the least", consumer, c.lease)
	case c.keep < c.lease:
		return nil, fmt.Errorf("dedup: consumer %q: WithKeep(%s): it must not be below the lease, %s", consumer, c.keep, c.lease)
	}
	return g, nil
}

// Process implements [Processor].
func (g *Guard) Process(ctx context.Context, m Message) Result {
	k, err := keyOf(g.key, &m)
	if err != nil {
		return Result{Failed, store.FaultHandler, err}
	}
	stored := k.Stored()
	m.origin = store.Origin{Consumer: g.consumer, Key: stored}
	claimed := time.Now()
	claim, err := g.leases.Claim(ctx, leaseKey(g.consumer, k.text, stored), store.ClaimParams{Lease: g.config.lease, Keep: g.config.keep})
	if err != nil {
		return g.failed(ctx, err, g.fault(err))
	}
	switch claim.State {
	case store.Done:
		return Result{Outcome: Duplicate}
	case store.Fresh:
		return g.run(ctx, m, claim, claimed)
	default:
		return Result{Failed, store.FaultBusy, fmt.Errorf("dedup: the message is being handled elsewhere until %s", claim.Until.Format(time.RFC3339))}
	}
}

func (g *Guard) run(ctx context.Context, m Message, claim store.Claim, claimed time.Time) Result {
	m.token = claim.Token
	held, lose := context.WithCancelCause(ctx)
	stopped := g.keepExtending(held, lose, claim, claimed)
	// A handler that ends its goroutine, as a test's FailNow does, leaves by this way alone.
	returned := false
	defer func() {
		if !returned {
			lose(nil)
			<-stopped
			g.release(ctx, claim)
		}
	}()
	err := contain(ctx, 0, func(ctx context.Context) error { return g.handle(held, m) })
	returned = true
	lose(nil)
	<-stopped

	if err != nil {
		g.release(ctx, claim)
		if cause := context.Cause(held); errors.Is(cause, store.ErrLost) {
			return Result{Failed, store.FaultBusy, fmt.Errorf("dedup: %w: %w", cause, err)}
		}
		return g.failed(ctx, err, store.FaultHandler)
	}
	limited, cancel := g.afterwards(ctx)
	defer cancel()
	// The effect has happened. If that cannot be recorded, the message is neither done nor
	// failed; whoever gets it next will find the lease taken, run out, or completed.
	if err := g.leases.Complete(limited, claim, nil); err != nil {
		return Result{Unknown, g.fault(err), fmt.Errorf("dedup: the effect took place and could not be recorded: %w", err)}
	}
	return Result{Outcome: Applied}
}

// release gives the lease back. Where it cannot be given back, it runs out.
func (g *Guard) release(ctx context.Context, claim store.Claim) {
	limited, cancel := g.afterwards(ctx)
	defer cancel()
	_ = g.leases.Release(limited, claim)
}

// afterwards outlives the message's context by a lease.
func (g *Guard) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.config.lease)
}

// keepExtending extends the lease until the context ends, and ends it when the lease is lost. An
// error that says nothing about the lease is met by trying again: a third of the time
// has passed, two are left. When they have passed, too, somebody else may hold it. Time
// is counted from before the question, so this side never believes in it for longer
// than the store does.
func (g *Guard) keepExtending(ctx context.Context, lose context.CancelCauseFunc, claim store.Claim, claimed time.Time) (stopped <-chan struct{}) {
	third, until := g.config.lease/3, claimed.Add(g.config.lease)
	extend := func() error {
		asked := time.Now()
		limited, cancel := context.WithDeadline(ctx, earlier(until, asked.Add(third)))
		defer cancel()
		_, err := g.leases.Extend(limited, claim, g.config.lease)
		if err == nil {
			until = asked.Add(g.config.lease)
		}
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(third)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			switch err := extend(); {
			case errors.Is(err, store.ErrLost):
				lose(err)
				return
			case err != nil && !time.Now().Before(until):
				lose(fmt.Errorf("%w, or so it must be assumed: %w", store.ErrLost, err))
				return
			}
		}
	}()
	return done
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (g *Guard) failed(ctx context.Context, err error, fault store.Fault) Result {
	switch {
	case IsPermanent(err):
		fault = store.FaultHandler
	case ctx.Err() != nil:
		fault = store.FaultCanceled
	case fault == store.FaultCanceled:
		fault = store.FaultOutage // a limit of the store's own has passed
	}
	return Result{Failed, fault, err}
}

// fault asks the store where it can tell. An error of a store of leases is never the
// message's.
func (g *Guard) fault(err error) store.Fault {
	if s, ok := g.leases.(interface{ Fault(error) store.Fault }); ok {
		if f := s.Fault(err); f != store.FaultHandler {
			return f
		}
	}
	return store.FaultOutage
}

// leaseKey digests everything that makes it the same work, each part behind its length.
func leaseKey(consumer string, text []byte, key store.Key) store.LeaseKey {
	b := make([]byte, 0, len(consumer)+len(text)+40)
	b = binary.AppendUvarint(b, uint64(len(consumer)))
	b = append(b, consumer...)
	b = binary.AppendUvarint(b, uint64(len(text)))
	b = append(b, text...)
	b = append(b, key.ID[:]...)
	return sha256.Sum256(b)
}
