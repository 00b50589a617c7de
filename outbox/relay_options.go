package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// RelayOption configures [NewRelay].
type RelayOption interface{ applyRelay(*relayConfig) error }

type relayConfig struct {
	name           string
	lease          time.Duration
	poll           time.Duration
	batch          int
	calls          int
	publishTimeout time.Duration
	drain          time.Duration
	retry          Retry
	retries        map[string]Retry
	probe          Retry
	log            *slog.Logger
}

type relayOption func(*relayConfig) error

func (f relayOption) applyRelay(c *relayConfig) error { return f(c) }

// WithName is how the relay is called in the tables and in logs; a random part is added for
// each run. The default is the host's name and the process id.
func WithName(name string) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if name == "" || len(name) > 200 {
			return fmt.Errorf("WithName(%q): between 1 and 200 bytes", name)
		}
		c.name = name
		return nil
	})
}

// WithLease is how long the slots of a relay that died stay with it before the others take
// them. The default is fifteen seconds. A shorter lease shortens the gap after a crash; one
// that is shorter than the pauses of the machine or the database makes relays lose slots
// while they live, which costs copies and nothing else.
func WithLease(d time.Duration) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if d < time.Second {
			return fmt.Errorf("WithLease(%s): a second is the least", d)
		}
		c.lease = d
		return nil
	})
}

// WithPoll is how often the relay looks for events when nothing wakes it, and for retries
// that are due. The default is a second. It is the guarantee behind [Relay.Wake].
func WithPoll(d time.Duration) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if d < 10*time.Millisecond || d > time.Minute {
			return fmt.Errorf("WithPoll(%s): between 10ms and a minute", d)
		}
		c.poll = d
		return nil
	})
}

// WithBatch is the most events that one Publish call is handed; twice as many are read at
// once. The default is 500. A larger batch gains little and holds more memory; the relay
// reads fewer at once where events are large.
func WithBatch(n int) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if n < 1 || n > 10000 {
			return fmt.Errorf("WithBatch(%d): between 1 and 10000", n)
		}
		c.batch = n
		return nil
	})
}

// WithCalls is how many Publish calls one destination gets at the same time, each for
// other keys. The default is 4, and 64 for a [Splitter], each for another topic.
func WithCalls(n int) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if n < 1 || n > 1024 {
			return fmt.Errorf("WithCalls(%d): between 1 and 1024", n)
		}
		c.calls = n
		return nil
	})
}

// WithPublishTimeout is the deadline of one Publish call. The default is thirty seconds. What
// is not confirmed by then counts as unreached.
func WithPublishTimeout(d time.Duration) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if d < 10*time.Millisecond {
			return fmt.Errorf("WithPublishTimeout(%s): 10ms is the least", d)
		}
		c.publishTimeout = d
		return nil
	})
}

// WithDrain is how long Run lets calls under way finish after its context has ended, before
// it cancels them. The default is ten seconds. Keep it below the time your platform gives a
// process to stop.
func WithDrain(d time.Duration) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if d < 0 {
			return fmt.Errorf("WithDrain(%s): it must not be negative", d)
		}
		c.drain = d
		return nil
	})
}

// WithRetry is how events are tried again that their destination has refused. The default is
// ten attempts with pauses from a second to five minutes, about half an hour in all.
func WithRetry(r Retry) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if err := r.validate(); err != nil {
			return fmt.Errorf("WithRetry: %w", err)
		}
		c.retry = r
		return nil
	})
}

// WithRetryFor is [WithRetry] for one destination, such as webhooks whose receivers may
// be away for a day.
func WithRetryFor(destination string, r Retry) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if err := r.validate(); err != nil {
			return fmt.Errorf("WithRetryFor(%q): %w", destination, err)
		}
		if c.retries == nil {
			c.retries = map[string]Retry{}
		}
		c.retries[destination] = r
		return nil
	})
}

// WithProbe is how often a topic that cannot be reached is tried: with one event, in pauses
// that grow from least to most. The default is from 200 milliseconds to 30 seconds.
func WithProbe(least, most time.Duration) RelayOption {
	return relayOption(func(c *relayConfig) error {
		c.probe = Retry{MaxAttempts: 1, MinDelay: least, MaxDelay: most}
		if err := c.probe.validate(); err != nil {
			return fmt.Errorf("WithProbe(%s, %s): %w", least, most, err)
		}
		return nil
	})
}

// WithLogger is where the relay says what it does: slots won and lost, topics down and up,
// events parked. Payloads are never logged. The default is nowhere.
func WithLogger(l *slog.Logger) RelayOption {
	return relayOption(func(c *relayConfig) error {
		if l == nil {
			return errors.New("WithLogger: the logger is nil; leave the option out for none")
		}
		c.log = l
		return nil
	})
}

func newRelayConfig(opts []RelayOption) (relayConfig, error) {
	c := relayConfig{
		name: defaultName(), lease: 15 * time.Second, poll: time.Second, batch: 500,
		publishTimeout: 30 * time.Second, drain: 10 * time.Second,
		retry: Retry{MaxAttempts: 10, MinDelay: time.Second, MaxDelay: 5 * time.Minute},
		probe: Retry{MaxAttempts: 1, MinDelay: 200 * time.Millisecond, MaxDelay: 30 * time.Second},
		log:   slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		if err := o.applyRelay(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}
