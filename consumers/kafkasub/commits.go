package kafkasub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// errNotAnswered: a commit of offsets was sent and the coordinator has not answered.
var errNotAnswered = errors.New("the coordinator does not answer")

// commits sends the offsets of one generation, coalesced. At most one request is under way, so
// two of them cannot overtake each other, and for a partition none is sent with a lower
// offset than the one before, unless the log itself began anew.
type commits struct {
	send       func(map[string]map[int]int64) error // Generation.CommitOffsets: no context, no deadline
	every      time.Duration
	background func(func())
	log        *slog.Logger

	dirty   chan struct{}
	stop    context.CancelFunc
	stopped chan struct{}

	inflight chan error      // the answer to the request under way; nil when there is none
	flying   map[place]int64 // and what it commits

	mu   sync.Mutex
	want map[place]int64 // to be sent
	sent map[place]int64 // the last one sent
	over bool            // the generation is known to be over, or finish was called
}

func newCommits(send func(map[string]map[int]int64) error, every time.Duration, background func(func()), log *slog.Logger) *commits {
	return &commits{
		send: send, every: every, background: background, log: log,
		dirty: make(chan struct{}, 1), stopped: make(chan struct{}),
		want: map[place]int64{}, sent: map[place]int64{},
	}
}

// begin says where the partition is taken up; only what is beyond that is sent.
func (c *commits) begin(at place, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[at] = offset
}

// settled says that everything before next is settled. It returns at once. What is said after
// the generation is over is forgotten: the next owner finds the marks.
func (c *commits) settled(at place, next int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.sent[at]; c.over || ok && next <= last {
		return
	}
	if last, ok := c.want[at]; ok && next <= last {
		return
	}
	c.want[at] = next
	c.wake()
}

// restart moves a partition to an offset that may be lower. Keeping the old, higher one would
// make the next owner begin in the middle of a log that has grown past it.
func (c *commits) restart(at place, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	delete(c.sent, at)
	c.want[at] = offset
	c.wake()
}

func (c *commits) wake() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// start sends in the background until finish.
func (c *commits) start() {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		defer close(c.stopped)
		for {
			select {
			case <-c.dirty:
			case <-ctx.Done():
				return
			}
			pause := c.every
			if c.flush(ctx) != nil {
				pause = max(pause, time.Second)
				c.wake()
			}
			if !wait(ctx, pause) {
				return
			}
		}
	}()
}

// finish sends what is left and accepts no more. The error is nil where another member is the
// owner by now: it will settle the rest.
func (c *commits) finish(ctx context.Context) error {
	c.stop()
	<-c.stopped
	err := c.flush(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return err
}

func (c *commits) flush(ctx context.Context) error {
	if c.inflight != nil {
		// A flush gave up waiting for it. Two at once could overtake each other.
		if err := c.land(ctx); errors.Is(err, errNotAnswered) {
			return err
		}
	}
	c.flying = c.take()
	if len(c.flying) == 0 {
		return nil
	}
	batch := map[string]map[int]int64{}
	for at, offset := range c.flying {
		if batch[at.topic] == nil {
			batch[at.topic] = map[int]int64{}
		}
		batch[at.topic][at.partition] = offset
	}
	done := make(chan error, 1)
	c.inflight = done
	c.background(func() { done <- c.send(batch) })
	return c.land(ctx)
}

// land waits for the request under way.
func (c *commits) land(ctx context.Context) error {
	var err error
	select {
	case err = <-c.inflight:
		c.inflight = nil
	case <-ctx.Done():
		return errNotAnswered
	}
	switch {
	case err == nil:
		return nil
	case stale(err):
		c.end(err)
		return nil
	}
	c.log.Warn("offsets not committed; trying again", "error", err)
	c.putBack(c.flying)
	return err
}

func (c *commits) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.log.Warn("offsets not committed: the group has moved on, and the next owner finds the marks", "error", err)
}

func (c *commits) take() map[place]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	offsets := c.want
	c.want = map[place]int64{}
	for at, offset := range offsets {
		c.sent[at] = offset
	}
	return offsets
}

func (c *commits) putBack(offsets map[place]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, offset := range offsets {
		if _, newer := c.want[at]; !newer {
			c.want[at] = offset
		}
	}
}

// stale: the coordinator says that the generation is not the current one.
func stale(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}
