package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// Partition is the state of one assigned partition.
type Partition struct {
	Topic     string
	Partition int
	// Settled is the offset before which everything is settled; it is -1 until that is known.
	Settled int64
	// End is the offset behind the newest record that the broker has told of, or -1.
	End int64
	// Failures counts the results in a row that did not settle a message, of the lane that has
	// the most.
	Failures int
	// LastProgress is when messages last moved Settled on or, with nothing left to settle, the broker
	// was last asked and had nothing new, which it is every [WithSilence]. Before that it is when
	// this process got the partition for the first time. What is settled behind a message that is not
	// does not count, so an alarm on its age catches what hangs, whatever the reason, also beside
	// lanes that get on.
	LastProgress time.Time
	// Paused tells that [Consumer.Pause] holds the partition.
	Paused bool
}

// Lag is how many offsets lie between what is settled and the end of the log, as far as known.
func (p Partition) Lag() int64 {
	if p.Settled < 0 || p.End < 0 {
		return 0
	}
	return max(p.End-p.Settled, 0)
}

// Assigned returns the partitions that this consumer owns at the moment, as far as it knows. It may
// be called at any time, for health checks and metrics.
func (c *Consumer) Assigned() []Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Partition, 0, len(c.partitions))
	for _, p := range c.partitions {
		all = append(all, Partition{
			Topic: p.at.topic, Partition: p.at.partition,
			Settled: p.settled.Load(), End: p.end.Load(), Failures: p.failures(),
			LastProgress: p.lastProgress(), Paused: c.Paused(),
		})
	}
	return all
}

func (c *Consumer) own(partitions []*partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitions = partitions
}

// Pause makes the consumer hand nothing more over, retries included, until [Consumer.Resume]. What
// the processor has already may finish. The consumer stays in the group and keeps its partitions,
// also through rebalances; it reads on only until its prefetch is full. Pause does not wait; it may
// be called at any time, before Run too, and more than once.
func (c *Consumer) Pause() {
	if !c.Paused() {
		c.conf.log.Info("paused")
	}
	c.gate.close()
}

// Resume ends a [Consumer.Pause].
func (c *Consumer) Resume() {
	if c.Paused() {
		c.conf.log.Info("resumed")
	}
	c.gate.open()
}

// Paused tells whether the consumer is paused.
func (c *Consumer) Paused() bool { return c.gate.shut.Load() }

// Ready returns nil while Run is a member of the group, knows its partitions, which may be none,
// and the processor has passed its check; otherwise an error that says what is missing. A
// rebalance does not make it unready, unless the group cannot be joined again within
// RebalanceTimeout. A consumer that is paused is ready.
//
// It asks nobody and returns at once: it tells what Run has found. Where the store is lost later,
// messages wait and [Partition].LastProgress tells.
func (c *Consumer) Ready() error {
	if err := c.state.missing(c.group.RebalanceTimeout); err != nil {
		return fmt.Errorf("kafkasub: group %q is not ready: %w", c.group.ID, err)
	}
	return nil
}

var (
	errNotRun       = errors.New("Run has not been called")
	errEnded        = errors.New("Run has ended, or is about to")
	errUnchecked    = errors.New("the processor has not passed its check")
	errUnreached    = errors.New("the brokers have not been reached")
	errNotJoined    = errors.New("the group has not been joined")
	errTopicMissing = errors.New("a topic is missing, and without it kafka-go assigns nothing")
)

// state is what Ready tells.
type state struct {
	mu     sync.Mutex
	phase  error     // what the start still lacks; nil once the group has been joined
	begun  bool      // Run has been called
	left   time.Time // since when the group has not been joined again; zero while it is
	reason error     // why, as last seen
}

// awaits says what comes next in the start, or that there is nothing any more.
func (s *state) awaits(what error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.begun, s.reason = what, true, nil
}

func (s *state) joined() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == errEnded {
		return
	}
	s.phase, s.left, s.reason = nil, time.Time{}, nil
}

// away says that the group has to be joined again, or why that did not succeed.
func (s *state) away(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left.IsZero() {
		s.left = time.Now()
	}
	if reason != nil {
		s.reason = reason
	}
}

func (s *state) missing(patience time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch away := time.Since(s.left); {
	case !s.begun:
		return errNotRun
	case s.phase != nil && s.reason != nil:
		return fmt.Errorf("%w: %w", s.phase, s.reason)
	case s.phase != nil:
		return s.phase
	case s.left.IsZero() || away < patience && s.reason != errTopicMissing:
		return nil
	case s.reason != nil:
		return fmt.Errorf("not in the group since %s: %w", away.Round(time.Second), s.reason)
	default:
		return fmt.Errorf("not in the group since %s", away.Round(time.Second))
	}
}

// check asks the processor whether it can work, within the start limit.
func (r *run) check() error {
	checker, ok := r.processor.(dedup.Checker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.conf.startLimit)
	defer cancel()
	if err := checker.Check(ctx); err != nil {
		return fmt.Errorf("check the processor: %w", err)
	}
	return nil
}
