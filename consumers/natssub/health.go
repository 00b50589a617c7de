package natssub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// State is what is known of a durable and of this process's part in it.
type State struct {
	// Pending is how many messages of the stream the durable has not delivered yet. Delivered
	// counts those that are delivered and not acknowledged, here and in other processes, those
	// that wait for their next attempt included.
	Pending   uint64
	Delivered int
	// DeliveredLimit is the durable's MaxAckPending, or -1 without one. When Delivered reaches it, the
	// server delivers nothing more to anybody and says nothing.
	DeliveredLimit int
	// Redelivered is how many of the Delivered were delivered more than once.
	Redelivered int

	// InHand is how many messages this process has, until the server confirms that they are settled,
	// those that wait here for their next try included, and Handling how many of them its handlers have.
	InHand, Handling int
	// HandlingSince is when the call began that a handler has not returned from for longest, of those of now;
	// zero while none is at work. One that hangs beside others that go on shows here alone: set an
	// alarm on the age that no handler may reach.
	HandlingSince time.Time
	// LastProgress is when this process last settled a message, or State last found that there
	// was nothing to do, or Run began. An alarm on its age catches what hangs altogether, whatever the reason.
	LastProgress time.Time
	// Paused tells that [Consumer.Pause] is in effect.
	Paused bool
}

// Lag is how many messages of the stream are not settled yet.
func (s State) Lag() uint64 { return s.Pending + uint64(s.Delivered) }

// State asks the server about the durable; ctx bounds that. It may be called at any time, from
// Run's beginning on and without Run. What this process knows by itself is in the State of an
// error as well.
func (c *Consumer) State(ctx context.Context) (State, error) {
	s := State{Paused: c.Paused()}
	if r := c.health.run.Load(); r != nil {
		s.InHand = r.hand.count()
		s.Handling, s.HandlingSince = r.busy.now()
	}
	durable, err := c.js.Consumer(ctx, c.stream, c.durable)
	if err != nil {
		s.LastProgress = c.health.progress()
		return s, fmt.Errorf("natssub: state of %s of stream %s: %w", c.durable, c.stream, err)
	}
	info := durable.CachedInfo()
	s.Pending, s.Delivered, s.Redelivered = info.NumPending, info.NumAckPending, info.NumRedelivered
	s.DeliveredLimit = info.Config.MaxAckPending
	if s.Lag() == 0 {
		c.health.progressed()
	}
	s.LastProgress = c.health.progress()
	return s, nil
}

// Ready returns nil while Run is at work, with the processor checked, the durable found and the
// server answering; otherwise an error that says what is missing. A consumer that is paused is
// ready, and so is one whose store is away, for which its messages wait.
//
// It asks nobody and returns at once: it tells what Run has found. A server that keeps its
// connections but does not answer is noticed within about ten seconds, as long as there is room for
// a message; [Consumer.State] asks it.
func (c *Consumer) Ready() error {
	if err := c.missing(); err != nil {
		return fmt.Errorf("natssub: %s of stream %s is not ready: %w", c.durable, c.stream, err)
	}
	return nil
}

func (c *Consumer) missing() error {
	if err := c.health.phased(); err != nil {
		return err
	}
	if status := c.js.Conn().Status(); status != nats.CONNECTED {
		return fmt.Errorf("the connection is %s", status)
	}
	return c.health.troubled()
}

var (
	errNotRun     = errors.New("Run has not been called")
	errUnchecked  = errors.New("the processor has not passed its check")
	errUnattached = errors.New("the durable has not been found or made")
	errEnded      = errors.New("Run has ended, or is about to")
)

// silence is how long the server's last missing heartbeat counts. While it does not answer, one
// is missed every two of them.
const silence = 3 * pullHeartbeat

// health is what Ready and State tell.
type health struct {
	run  atomic.Pointer[run] // nil between runs
	last atomic.Int64        // progress, in nanoseconds since 1970; 0 before the first run

	mu      sync.Mutex
	phase   error // what is missing yet; nil while the run is at work
	begun   bool
	trouble error
	until   time.Time // when the trouble ends by itself; zero if it does not
}

// awaits says what comes next, or with nil that the run is at work.
func (h *health) awaits(what error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.begun, h.trouble, h.until = what, true, nil, time.Time{}
}

func (h *health) well() { h.set(nil, time.Time{}) }

// unwell: something is wrong until the next message, request or answer.
func (h *health) unwell(err error) { h.set(err, time.Time{}) }

// silent: the server has not answered just now, and when it does again nobody is told.
func (h *health) silent(err error) { h.set(err, time.Now().Add(silence)) }

func (h *health) set(trouble error, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble, h.until = trouble, until
}

// phased tells which phase Run has not come to, or has left.
func (h *health) phased() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begun {
		return errNotRun
	}
	return h.phase
}

// troubled tells what is wrong with fetching.
func (h *health) troubled() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble == nil || !h.until.IsZero() && time.Now().After(h.until) {
		return nil
	}
	return fmt.Errorf("messages cannot be fetched: %w", h.trouble)
}

func (h *health) progressed() { h.last.Store(time.Now().UnixNano()) }

func (h *health) progress() time.Time {
	if n := h.last.Load(); n > 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
