package outbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/semel-dev/semel/store"
)

// Relay takes events out of the outbox and hands them to publishers. Several relays, in
// one or many processes, share the work; all should be given the same destinations, because
// an event whose destination its relay does not know waits until a relay does.
type Relay struct {
	queue      store.Queue
	publishers map[string]Publisher
	relayConfig

	wake    chan struct{}
	running atomic.Bool
}

// NewRelay returns a relay over a queue, such as a *pgstore.Store, with the publishers of its
// destinations by name. It does no I/O; [Relay.Run] does the work.
func NewRelay(q store.Queue, publishers map[string]Publisher, opts ...RelayOption) (*Relay, error) {
	if q == nil {
		return nil, errors.New("outbox: the queue is nil: pass a store, such as a *pgstore.Store")
	}
	if len(publishers) == 0 {
		return nil, errors.New("outbox: no publishers: a relay needs one for each destination")
	}
	own := make(map[string]Publisher, len(publishers))
	for name, p := range publishers {
		if name == "" || p == nil {
			return nil, fmt.Errorf("outbox: publisher %q: it takes a name and a publisher that is not nil", name)
		}
		own[name] = p
	}
	c, err := newRelayConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	for name := range c.retries {
		if own[name] == nil {
			return nil, fmt.Errorf("outbox: WithRetryFor(%q): there is no publisher of that name", name)
		}
	}
	return &Relay{queue: q, publishers: own, relayConfig: c, wake: make(chan struct{}, 1)}, nil
}

// Wake tells the relay that events have been committed, so that it looks at once and not
// at its next poll. It never blocks, may be called from anywhere, and costs next to
// nothing: give it to [WithWake].
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
		// One look finds everything that was committed before it.
	}
}

// Run relays events until ctx ends. Then it begins nothing new, lets the calls under way
// finish within the drain limit (see [WithDrain]), gives its slots back, so that another
// relay goes on at once, and returns nil. An error says what was not clean; nothing is lost
// then either, and the other relays take over when the lease has passed.
//
// While the database cannot be reached Run waits with growing pauses and goes on, for
// ever. Only where the tables are missing, or the rights to them, when it starts does it
// return an error before ctx ends.
//
// Run may be called again after it has returned, but not twice at the same time.
func (r *Relay) Run(ctx context.Context) error {
	if r.running.Swap(true) {
		return errors.New("outbox: the relay runs already: make a second one to run two")
	}
	defer r.running.Store(false)
	name := r.name + "-" + runID()
	p := newPump(r, r.queue.Join(name, r.lease), r.log.With("relay", name))
	if err := p.run(ctx); err != nil {
		return fmt.Errorf("outbox: relay %s: %w", name, err)
	}
	return nil
}

// runID tells two runs of one name apart: what a former run held is not this one's.
func runID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // it never returns an error: it ends the program instead
	return hex.EncodeToString(b[:])
}

// defaultName says where a relay runs, for the person who looks at the tables.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "relay"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
