package kafkasub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

// ErrNotClean: Run has ended and left something undone that the next owner of the partitions
// will see as a redelivery: a handler that had to be cancelled or did not return, offsets
// that could not be committed, a group that could not be left.
var ErrNotClean = errors.New("the shutdown was not clean")

// Consumer hands the records of a group's partitions to a [dedup.Processor]. Make one with [New];
// it runs once.
type Consumer struct {
	group     kafka.ConsumerGroupConfig
	conf      config
	processor dedup.Processor
	counter   dedup.Counter // nil: attempts do not outlive the process
	starter   string        // its name for this process
	fencer    dedup.Fencer  // nil: the store keeps no positions
	ran       atomic.Bool

	state state
	gate  gate // closed by Pause

	mu         sync.Mutex
	partitions []*partition       // of the generation that is at work
	kept       map[place]keepsake // of generations before it
}

// New checks what it is handed and starts nothing. Brokers, ID, Topics and Dialer, with its TLS
// and SASL, are used as they are, and so are the timeouts, balancers and loggers of the group.
//
// The processor must be able to bury messages ([dedup.Burier]) unless [WithoutDeadLetters] is
// given. Where it is a [dedup.EachProcessor], what is already fetched of a partition is handed over
// together; where it is neither that nor batched, one message at a time.
func New(cfg kafka.ConsumerGroupConfig, p dedup.Processor, opts ...Option) (*Consumer, error) {
	conf := newConfig(opts)
	if err := check(&cfg, &conf, p); err != nil {
		return nil, fmt.Errorf("kafkasub: new consumer: %w", err)
	}
	cfg.Brokers, cfg.Topics = slices.Clone(cfg.Brokers), slices.Clone(cfg.Topics)
	c := &Consumer{group: cfg, conf: conf, processor: p, kept: map[place]keepsake{}}
	if counter, ok := p.(dedup.Counter); ok && counter.Counts() {
		c.counter, c.starter = counter, rand.Text()
	}
	if fencer := fencerOf(p); fencer != nil {
		c.fencer = fencer
	}
	return c, nil
}

func check(cfg *kafka.ConsumerGroupConfig, conf *config, p dedup.Processor) error {
	switch {
	case p == nil:
		return errors.New("the processor is nil: pass the guard that dedup made for your handler")
	case cfg.ID == "":
		return errors.New("the group id is missing: set ID to a name that stays the same over deploys")
	case len(cfg.Brokers) == 0:
		return errors.New("the brokers are missing: set Brokers to at least one host:port")
	case len(cfg.Topics) == 0:
		return errors.New("the topics are missing: set Topics to at least one")
	case slices.Contains(cfg.Topics, ""):
		return errors.New("one of the topics has no name")
	case cfg.StartOffset == kafka.LastOffset && !conf.lastOffset:
		return errors.New("StartOffset is LastOffset, with which a new group misses messages: use FirstOffset, or pass AllowLastOffset if that is what you want")
	}
	for i, topic := range cfg.Topics {
		if slices.Contains(cfg.Topics[:i], topic) {
			return fmt.Errorf("topic %q is listed twice", topic)
		}
	}
	if err := conf.validate(p); err != nil {
		return err
	}
	if !conf.noWatch {
		cfg.WatchPartitionChanges = true
	}
	if cfg.ErrorLogger == nil {
		cfg.ErrorLogger = cfg.Logger // as kafka-go does
	}
	if cfg.ErrorLogger == nil {
		log := conf.log
		cfg.ErrorLogger = kafka.LoggerFunc(func(format string, args ...any) {
			log.Debug("kafka-go: " + fmt.Sprintf(format, args...))
		})
	}
	if err := cfg.Validate(); err != nil { // fills in its defaults
		return err
	}
	return conf.fitDrain(*cfg)
}

// Run checks the processor, reaches the brokers, joins the group and handles messages until ctx
// ends or a message makes it stop. It may be called once.
//
// Before the first join Run returns an error if the processor's store is not ready or if
// brokers, topics or group cannot be had within the start limit. Afterwards outages are logged
// and waited for without end.
//
// When ctx ends, no further handler is started; those that run may finish within the drain
// limit and are then cancelled; what is settled is committed and the group is left. Run returns
// nil if all that went well, and an [ErrNotClean] if not. It returns no later than about 11 seconds
// after the drain limit, whatever broker and handlers do: a handler that ignores its
// cancelled context is left behind.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.ran.CompareAndSwap(false, true) {
		return errors.New("kafkasub: run: a Consumer runs once; make another one")
	}
	r := newRun(c, ctx)
	if err := r.run(); err != nil {
		return fmt.Errorf("kafkasub: run group %q: %w", c.group.ID, err)
	}
	return nil
}

func (c *Consumer) logAt(at place) *slog.Logger {
	return c.conf.log.With("topic", at.topic, "partition", at.partition)
}

// wait pauses and tells whether ctx is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
