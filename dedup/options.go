package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// TxOption configures [NewTx] and [NewTxBatch].
type TxOption interface{ applyTx(*txConfig) }

type txConfig struct {
	commitLimit time.Duration
	conflicts   int
}

type txOption func(*txConfig)

func (f txOption) applyTx(c *txConfig) { f(c) }

// WithCommitLimit bounds COMMIT, which does not use the message's context: one that ended
// in the middle of it would leave the outcome unknown. The default is 15 seconds. It must
// be above the store's limit on lock waits, because the next message's mark may travel
// with the COMMIT.
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

func newTxConfig(opts []TxOption) (txConfig, error) {
	c := txConfig{commitLimit: 15 * time.Second, conflicts: 5}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o.applyTx(&c)
	}
	switch {
	case c.commitLimit <= 0:
		return c, fmt.Errorf("WithCommitLimit(%s): the limit must be above zero", c.commitLimit)
	case c.conflicts < 0:
		return c, fmt.Errorf("WithConflictRetries(%d): zero is the least", c.conflicts)
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
