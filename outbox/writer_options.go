package outbox

import (
	"errors"
	"fmt"
	"maps"
)

// WriterOption configures [NewWriter].
type WriterOption interface{ applyWriter(*writerConfig) error }

type writerConfig struct {
	wake         func()
	validators   map[string]Validator
	destinations map[string]bool
	maxPayload   int
}

type writerOption func(*writerConfig) error

func (f writerOption) applyWriter(c *writerConfig) error { return f(c) }

// WithWake is called after the commit of a handler's transaction in which events were
// written: pass the Wake method of a relay in this process, and the events leave at once. The
// default is nothing, and the relay finds the events at its next poll. A program that
// writes outside of a handler calls [Relay.Wake] itself, after its commit. f must not block.
func WithWake(f func()) WriterOption {
	return writerOption(func(c *writerConfig) error {
		if f == nil {
			return errors.New("WithWake: the function is nil; leave the option out where no relay runs in this process")
		}
		c.wake = f
		return nil
	})
}

// WithDestinations makes every other destination an error at WriteTx. Without it any name
// is stored, and an event to a name that no relay knows waits until one does.
func WithDestinations(names ...string) WriterOption {
	return writerOption(func(c *writerConfig) error {
		if len(names) == 0 {
			return errors.New("WithDestinations: no names; leave the option out to allow any")
		}
		c.destinations = map[string]bool{}
		for _, name := range names {
			if name == "" {
				return errors.New("WithDestinations: a name is empty")
			}
			c.destinations[name] = true
		}
		return nil
	})
}

// WithValidator asks v about every event to the destination, so that one that could never be
// delivered fails in the transaction that writes it. Publishers that can tell are Validators.
func WithValidator(destination string, v Validator) WriterOption {
	return writerOption(func(c *writerConfig) error {
		if destination == "" || v == nil {
			return errors.New("WithValidator: it takes the name of a destination and a validator that is not nil")
		}
		c.validators = maps.Clone(c.validators)
		if c.validators == nil {
			c.validators = map[string]Validator{}
		}
		c.validators[destination] = v
		return nil
	})
}

// WithMaxPayload bounds an event's payload, in bytes. The default is 1 MiB, about what
// Kafka and NATS take at their defaults. Large payloads are read by the relay in batches:
// store what is larger elsewhere and send its address.
func WithMaxPayload(bytes int) WriterOption {
	return writerOption(func(c *writerConfig) error {
		const most = 64 << 20
		if bytes < 1 || bytes > most {
			return fmt.Errorf("WithMaxPayload(%d): between 1 and %d bytes", bytes, most)
		}
		c.maxPayload = bytes
		return nil
	})
}

func newWriterConfig(opts []WriterOption) (writerConfig, error) {
	c := writerConfig{maxPayload: 1 << 20}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		if err := o.applyWriter(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}
