package kafkasub

import (
	"log/slog"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// The parts of giving a partition up that follow the drain. Together with it they must fit
// into the session and the rebalance timeout, or the partition has another owner while
// this one is still at work.
const (
	rollbackLimit = time.Second     // for handlers that were cancelled
	commitLimit   = 2 * time.Second // for the last commit of offsets
)

// Option changes a [Consumer]. The defaults are meant for production.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	policy      consumers.Policy
	batch       int
	batched     bool
	linger      time.Duration
	prefetch    int
	prefetchSet bool
	lanes       int
	orderBy     func(dedup.Message) []byte
	drain       time.Duration
	drainSet    bool
	commitEvery time.Duration
	startLimit  time.Duration
	silence     time.Duration
	minBytes    int
	maxBytes    int
	maxWait     time.Duration
	log         *slog.Logger

	newLog NewLog

	requireKeep, noDeadLetters, orderBySet, newLogSet, lastOffset, noWatch bool
}

// WithPolicy says how often and at what pace a failing message is tried again. The
// default is [consumers.DefaultPolicy].
func WithPolicy(p consumers.Policy) Option {
	return optionFunc(func(c *config) { c.policy = p })
}

// WithBatch handles up to size messages of a partition in one transaction, through
// [dedup.BatchProcessor]. A batch that is not full waits for linger after its first
// message, so linger is what a message may be late on a quiet partition. Without this
// option every message has a transaction of its own.
//
// A batch is one unit: shutdown and rebalance wait for all of it, so its handlers together
// have to fit into the drain limit.
func WithBatch(size int, linger time.Duration) Option {
	return optionFunc(func(c *config) { c.batch, c.linger, c.batched = size, linger, true })
}

// WithConcurrency handles up to n messages of a partition, or n batches, at the same time. The
// partition is divided into n lanes by the hash of an ordering key, which is the record's key
// unless [WithOrderBy] says otherwise. Messages of one key are handled one after another in their
// order: through retries, dead letters, rebalances and shutdown. A message that fails holds up the
// messages of its lane, the others go on; offsets are committed up to the first message that
// is not settled. Messages without a key have no order, and go where there is the least to do. The
// default is 1: all messages of a partition in their order.
//
// Each lane uses a connection of the database at a time, so a process that has p partitions wants a
// pool of p times n. More lanes mean more that may be redelivered after a crash, up to the prefetch.
func WithConcurrency(n int) Option {
	return optionFunc(func(c *config) { c.lanes = n })
}

// WithOrderBy chooses the ordering key of [WithConcurrency], for messages whose order does not
// follow the record's key. An empty one means that the message has no order. The function must
// give the same key for the same message always; it is called from several goroutines, and a panic
// stops the consumer, because the order of that message is then unknown.
func WithOrderBy(key func(dedup.Message) []byte) Option {
	return optionFunc(func(c *config) { c.orderBy, c.orderBySet = key, true })
}

// WithPrefetch is how many messages of a partition may be between the broker and the offset that
// can be committed: read ahead, in handlers, or settled behind one that is not. When there are so
// many, reading stops. kafka-go holds half as many more. The default is 200, or 16 for each lane,
// or two batches for each lane, whatever is the most. It matters when messages are large, and when
// one message fails for long, because the lanes beside it get no further than this.
//
// Half of it is the most that is handed to a [dedup.EachProcessor] at once.
func WithPrefetch(messages int) Option {
	return optionFunc(func(c *config) { c.prefetch, c.prefetchSet = messages, true })
}

// WithDrain is how long running handlers may take to finish when the consumer stops or
// its partitions are reassigned, before they are cancelled and rolled back. The default is ten
// seconds, or less where the timeouts of the group are short: no heartbeat is sent while a
// generation of the group ends, so drain, roll back and last commit must fit into
// SessionTimeout and RebalanceTimeout.
func WithDrain(limit time.Duration) Option {
	return optionFunc(func(c *config) { c.drain, c.drainSet = limit, true })
}

// WithLogger is told what a person should know: retries, gaps in the log, restarts of the log,
// lost ownership, outages. The default discards it.
func WithLogger(log *slog.Logger) Option {
	return optionFunc(func(c *config) { c.log = log })
}

// WithCommitInterval is the least time between two commits of offsets; they are coalesced in
// between. The default is a quarter of a second. A crash redelivers what was not committed, and
// the marks absorb it, so the interval is a matter of load alone.
func WithCommitInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.commitEvery = d })
}

// WithStartLimit is how long Run keeps trying to reach the brokers, to find the topics
// and to join the group for the first time before it returns the error. The default is 15
// seconds. After the first join, outages are tried again without end.
func WithStartLimit(d time.Duration) Option {
	return optionFunc(func(c *config) { c.startLimit = d })
}

// WithFetch sets what kafka-go asks of the broker: MinBytes, MaxBytes and MaxWait of
// kafka.ReaderConfig; zero keeps the default, which is 1 byte, 1 MB and 10 seconds. A message
// larger than maxBytes is still delivered by brokers of version 0.10.1 and later, alone.
//
// MaxWait is also how long kafka-go waits for the broker's answer: if a busy broker takes
// longer than that, nothing is ever read. There is no need to make it short: neither a message
// that arrives nor a shutdown waits for it.
func WithFetch(minBytes, maxBytes int, maxWait time.Duration) Option {
	return optionFunc(func(c *config) {
		if minBytes != 0 {
			c.minBytes = minBytes
		}
		if maxBytes != 0 {
			c.maxBytes = maxBytes
		}
		c.maxWait = maxWait
	})
}

// WithSilence is how long a partition may bring nothing before the broker is asked where its
// log ends. If that is not where the reader is, and after the same time again it still has brought
// nothing, the reader is replaced and a warning logged. The default is 30 seconds.
func WithSilence(d time.Duration) Option {
	return optionFunc(func(c *config) { c.silence = d })
}

// WithoutDeadLetters makes Run return with an error where a message would be given up. The
// message stays uncommitted and is the first one after the next start. It is required when
// the processor is no [dedup.Burier].
func WithoutDeadLetters() Option {
	return optionFunc(func(c *config) { c.noDeadLetters = true })
}

// AllowLastOffset permits StartOffset to be kafka.LastOffset: a group without committed
// offsets then begins at the end of the log. Everything before that moment is never
// handled, and neither is what arrives before the first start of a group on a partition, nor
// what is written to a new partition before it is noticed.
func AllowLastOffset() Option {
	return optionFunc(func(c *config) { c.lastOffset = true })
}

// WithoutPartitionWatch leaves WatchPartitionChanges as the configuration has it. By
// default it is switched on, because without it the records of partitions that are added
// later are not read before the next rebalance, whenever that is.
func WithoutPartitionWatch() Option {
	return optionFunc(func(c *config) { c.noWatch = true })
}

func newConfig(opts []Option) config {
	c := config{
		policy:      consumers.DefaultPolicy(),
		lanes:       1,
		newLog:      StopAtNewLog,
		drain:       10 * time.Second,
		commitEvery: 250 * time.Millisecond,
		startLimit:  15 * time.Second,
		silence:     30 * time.Second,
		minBytes:    1,
		maxBytes:    1_000_000,
		log:         slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	if !c.prefetchSet {
		c.prefetch = max(200, 16*c.lanes, 2*c.batch*c.lanes)
	}
	return c
}
