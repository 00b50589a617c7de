package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// TxOption configures [NewTx] and [NewTxBatch].
type TxOption interface{ applyTx(*txConfig) }

type txConfig struct {
	commitLimit  time.Duration
	handlerLimit time.Duration
	conflicts    int
	fingerprint  func(Message) []byte
	order        func(Message) []byte
	observer     func(context.Context, Observation)

	handlerLimited, fingerprinted, parking, observed bool
}

type txOption func(*txConfig)

func (f txOption) applyTx(c *txConfig) { f(c) }

// WithCommitLimit bounds COMMIT, which does not use the message's context: one that ended
// in the middle of it would leave the outcome unknown. The default is 15 seconds. It must
// be above the store's limit on lock waits, because the next message's mark may travel
// with the COMMIT.
//
// Handlers that queue their statements (pgstore's Queued) have them run within this limit, those of a batch
// all together. Past it the message is [Unknown], and will be whenever it comes again, so it blocks
// its partition. Keep the store's statement limit below this one: a single statement that is too slow then
// fails its message, which is given up after its attempts like any other.
func WithCommitLimit(limit time.Duration) TxOption {
	return txOption(func(c *txConfig) { c.commitLimit = limit })
}

// WithConflictRetries says how often a transaction, handler included, is run again at once
// after the store refused to serialise it (in Postgres 40001 and 40P01). The default is 5.
// Past it the message has failed without using up an attempt, and the consumer retries
// it after its own delay.
func WithConflictRetries(n int) TxOption {
	return txOption(func(c *txConfig) { c.conflicts = n })
}

// WithHandlerLimit ends the handler's context after a time of its own; for a batch handler, that
// of the whole call. A handler that fails of it has failed like any other. One that ignores its
// context is not stopped by it. The default is none: only the message's own context ends it.
func WithHandlerLimit(limit time.Duration) TxOption {
	return txOption(func(c *txConfig) { c.handlerLimit, c.handlerLimited = limit, true })
}

// WithFingerprint keeps with each mark a digest of what the function returns: content that has to
// be the same whenever the key is, such as the body, or the amount and the account. A message
// with a known key and another fingerprint is a producer's mistake: it is [Mismatched], not a
// duplicate, and consumers bury it. A message for which the function returns nil has no fingerprint
// and matches every one, and so does a mark that was set without one.
//
// The function must be pure, like a [KeyFunc]. It costs a look at the mark of every duplicate.
func WithFingerprint(f func(m Message) []byte) TxOption {
	return txOption(func(c *txConfig) { c.fingerprint, c.fingerprinted = f, true })
}

// WithParking keeps order where a message is given up: its ordering key is parked, and later
// messages of that key are [Parked] behind it, each with its mark, until [TxGuard].ReplayKey has
// run them in their order. Others go on. The function returns the ordering key, usually that by
// which the broker orders ([OrderByKey]); nil or empty means that the message has none. The store
// must keep dead letters.
//
// Order is that in which messages are processed, so the consumer must not overtake: one at a time,
// or by key. It costs a look at the parked keys in the round trip that sets the marks.
func WithParking(order func(m Message) []byte) TxOption {
	return txOption(func(c *txConfig) { c.order, c.parking = order, true })
}

// OrderByKey orders by the broker's key: what Kafka orders within a partition.
func OrderByKey(m Message) []byte { return m.Key }

func newTxConfig(opts []TxOption) (txConfig, error) {
	c := txConfig{commitLimit: 15 * time.Second, conflicts: 5}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o.applyTx(&c)
	}
	switch {
	case c.commitLimit < time.Millisecond:
		return c, fmt.Errorf("WithCommitLimit(%s): 1ms is the least, and seconds are usual; past it an outcome is unknown", c.commitLimit)
	case c.conflicts < 0:
		return c, fmt.Errorf("WithConflictRetries(%d): zero is the least", c.conflicts)
	case c.handlerLimited && c.handlerLimit <= 0:
		return c, fmt.Errorf("WithHandlerLimit(%s): the limit must be above zero; leave the option out for none", c.handlerLimit)
	case c.fingerprinted && c.fingerprint == nil:
		return c, errors.New("WithFingerprint: the function is nil: return the content that has to be the same whenever the key is")
	case c.parking && c.order == nil:
		return c, errors.New("WithParking: the function is nil: return the ordering key, as OrderByKey does")
	case c.observed && c.observer == nil:
		return c, errors.New("WithObserver: the function is nil: leave the option out if nobody observes")
	}
	return c, nil
}

// checkParts says which of the things that every guard needs is missing.
func checkParts(haveStore bool, consumer string, key KeyFunc, haveHandler bool) error {
	switch {
	case !haveStore:
		return errors.New("the store is nil")
	case key == nil:
		return errors.New("the key function is nil: say where a message's identity is, as in FromHeader(\"event-id\") or FromCoordinates(); there is no default")
	case !haveHandler:
		return errors.New("the handler is nil")
	}
	if err := misuse(key); err != nil {
		return fmt.Errorf("the key function cannot work: %w", err)
	}
	return store.CheckConsumer(consumer)
}
