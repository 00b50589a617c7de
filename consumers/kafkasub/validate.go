package kafkasub

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

func (c *config) validate(p dedup.Processor) error {
	if err := c.policy.Validate(); err != nil {
		return fmt.Errorf("WithPolicy: %w", err)
	}
	if _, ok := p.(dedup.BatchProcessor); c.batched && !ok {
		return fmt.Errorf("WithBatch: %T handles one message at a time; pass a dedup.BatchProcessor or leave the option out", p)
	}
	if _, ok := p.(dedup.Burier); !ok && !c.noDeadLetters {
		return fmt.Errorf("%T cannot bury: give the guard a store with dead letters, or pass WithoutDeadLetters to stop at a message that would be given up", p)
	}
	if _, ok := p.(dedup.Keeper); c.requireKeep && !ok {
		return fmt.Errorf("RequireKeep: %T does not tell how long it keeps marks: pass a dedup.Keeper or leave the option out", p)
	}
	switch fenced := fencerOf(p) != nil; {
	case fenced && c.lanes > 1:
		return fmt.Errorf("WithConcurrency: %d: the store of %T keeps the position of each partition, which needs its messages in the order of the log: leave the option out, or use a store that keeps a mark for each message", c.lanes, p)
	case c.newLogSet && !fenced:
		return fmt.Errorf("WithNewLog: the store of %T keeps no positions, so a new log is read from its start and the marks tell what is new: leave the option out", p)
	case c.newLog.String() == NewLog(0).String():
		return fmt.Errorf("WithNewLog: %d is no policy: StopAtNewLog, NewLogFromStart and NewLogFromEnd are", c.newLog)
	}
	switch {
	case c.batched && c.batch < 1:
		return fmt.Errorf("WithBatch: the size is %d: it must be at least 1", c.batch)
	case c.linger < 0:
		return fmt.Errorf("WithBatch: the linger is %s: it must not be negative", c.linger)
	case c.lanes < 1:
		return fmt.Errorf("WithConcurrency: %d: it must be at least 1", c.lanes)
	case c.orderBySet && c.orderBy == nil:
		return errors.New("WithOrderBy: the function is nil; leave the option out to order by the record's key")
	case c.orderBySet && c.lanes == 1:
		return errors.New("WithOrderBy: without WithConcurrency every message of a partition is handled in its order; leave one out or add the other")
	case c.prefetch < 1:
		return fmt.Errorf("WithPrefetch: %d messages: it must be at least 1", c.prefetch)
	case c.prefetch < c.lanes*max(c.batch, 1):
		return fmt.Errorf("WithPrefetch: %d messages: it must be at least %d, which is a message or a batch for each lane of a partition", c.prefetch, c.lanes*max(c.batch, 1))
	case c.commitEvery <= 0:
		return fmt.Errorf("WithCommitInterval: %s: it must be above zero", c.commitEvery)
	case c.startLimit <= 0:
		return fmt.Errorf("WithStartLimit: %s: it must be above zero", c.startLimit)
	case c.silence <= 0:
		return fmt.Errorf("WithSilence: %s: it must be above zero", c.silence)
	case c.minBytes < 0 || c.maxBytes < 0 || c.maxBytes > 1<<30 || c.maxWait < 0:
		return errors.New("WithFetch: sizes must lie between 0 and 1 GB, and the wait must not be negative")
	case c.minBytes > c.maxBytes:
		return fmt.Errorf("WithFetch: at least %d bytes but at most %d: the least must not exceed the most", c.minBytes, c.maxBytes)
	case c.log == nil:
		return errors.New("WithLogger: the logger is nil; leave the option out to discard the log")
	}
	return nil
}

// ahead is the most that a reader holds, and the most that is handed over at once: while one half
// of the prefetch is being handled, the other one can be read.
func (c *config) ahead() int { return max(1, c.prefetch/2) }

// fitDrain checks the drain limit against the timeouts of a group configuration that has
// its defaults filled in.
func (c *config) fitDrain(g kafka.ConsumerGroupConfig) error {
	room := min(g.SessionTimeout, g.RebalanceTimeout) - g.HeartbeatInterval - rollbackLimit - commitLimit
	if room <= 0 {
		return fmt.Errorf("SessionTimeout %s and RebalanceTimeout %s leave no time to give a partition up: both must exceed HeartbeatInterval (%s) by more than %s",
			g.SessionTimeout, g.RebalanceTimeout, g.HeartbeatInterval, rollbackLimit+commitLimit)
	}
	if !c.drainSet {
		c.drain = min(c.drain, room)
	}
	if c.drain < 0 || c.drain > room {
		return fmt.Errorf("WithDrain: %s: it must lie between 0 and %s, which is what SessionTimeout %s and RebalanceTimeout %s leave after a heartbeat, a roll back and the last commit",
			c.drain, room, g.SessionTimeout, g.RebalanceTimeout)
	}
	return nil
}
