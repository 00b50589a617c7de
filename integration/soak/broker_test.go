//go:build unix

package soak

import (
	"context"
	"time"
)

// broker is the parent's side of a broker: its server, and what an operator does to it.
type broker interface {
	name() string
	// addr is where the proxies of the children lead, brokers what they are told.
	addr() string
	brokers() []string
	// through says by which proxy the parent's own producers go.
	through(addr string) error
	// produce puts messages into a lane, in order. After an error each of them may be there, or not.
	produce(ctx context.Context, lane int, ms []message) ([]place, error)
	// restart ends the broker without a warning and has it back after the pause.
	restart(ctx context.Context, w *world, pause time.Duration) error
	// reset makes the consumers of a group begin again at the start of the log.
	reset(ctx context.Context, w *world, g *group) error
	// forget tells the broker that a child is dead, which it would find out by itself later.
	forget(ctx context.Context, g *group, child string) error
	// lag is how many messages are not acknowledged by the group.
	lag(ctx context.Context, g *group) (int, error)
	// receipts are all copies of all events of a group that have arrived, those of a key in order.
	receipts(ctx context.Context, g *group) ([]receipt, error)
	// describe is what the broker knows of the consumers, for the person who sees them stall.
	describe(ctx context.Context, g *group) string
	logs() string
}

// place is where a copy of a message lies.
type place struct {
	Lane   int
	Offset int64
}

// receipt is one copy of an outbox event.
type receipt struct {
	EventID string
	message
	at string // where it lies, and when it was put there
}

// until calls f until it returns nil or ctx ends. The error is the last one of f's.
func until(ctx context.Context, f func(ctx context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := f(limited)
		cancel()
		if err == nil || !pause(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

// pause waits and tells whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
