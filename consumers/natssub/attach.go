package natssub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// checkConfig refuses settings under which messages would be lost or could not be worked on,
// whether they are still to be sent to the server or come from there.
func checkConfig(cfg jetstream.ConsumerConfig, attempts int) error {
	switch {
	case cfg.Durable == "":
		return errors.New("Durable is empty, which makes an ephemeral consumer: the server forgets it, " +
			"and which messages are done, when the process is away for a while; name a durable")
	case cfg.Name != "" && cfg.Name != cfg.Durable:
		return fmt.Errorf("Name %q and Durable %q differ: set Durable alone", cfg.Name, cfg.Durable)
	case cfg.DeliverSubject != "":
		return fmt.Errorf("it pushes to %q: a pull consumer, without DeliverSubject, is needed, "+
			"because nobody can hold back what is pushed", cfg.DeliverSubject)
	case cfg.AckPolicy == jetstream.AckNonePolicy:
		return errors.New("AckPolicy is none: the server forgets a message when it sends it, and a crash loses it; use jetstream.AckExplicitPolicy")
	case cfg.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("AckPolicy is %s: one acknowledgement would cover earlier messages that are not done; use jetstream.AckExplicitPolicy", cfg.AckPolicy)
	case len(cfg.PriorityGroups) > 0:
		return errors.New("it has PriorityGroups, which are not supported: leave them out")
	case cfg.MaxDeliver > 0 && cfg.MaxDeliver <= attempts:
		return fmt.Errorf("MaxDeliver is %d and the policy has %d attempts: the server would give messages up silently "+
			"before they are buried; leave MaxDeliver unlimited (-1), or set it well above", cfg.MaxDeliver, attempts)
	case cfg.MaxRequestExpires > 0 && cfg.MaxRequestExpires < time.Second:
		return fmt.Errorf("MaxRequestExpires is %s: the client asks for a second at least", cfg.MaxRequestExpires)
	}
	return nil
}

// attach finds or makes the durable.
func (c *Consumer) attach(ctx context.Context) (jetstream.Consumer, error) {
	var source jetstream.Consumer
	var err error
	if c.create != nil {
		source, err = c.js.CreateOrUpdateConsumer(ctx, c.stream, *c.create)
	} else {
		source, err = c.js.Consumer(ctx, c.stream, c.durable)
	}
	switch {
	case err == nil:
		return source, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("there is no such stream: create it first: %w", err)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, fmt.Errorf("there is no such durable: create it first, or use New, which does: %w", err)
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil, fmt.Errorf("the durable pushes to a subject: a pull consumer is needed: %w", err)
	case errors.Is(err, jetstream.ErrConsumerCreate):
		return nil, fmt.Errorf("the server refuses the settings; some cannot be changed once the durable is there: %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("no answer from JetStream over a connection that is %s: is the server there, and JetStream enabled for the account? %w",
			c.js.Conn().Status(), err)
	}
	return nil, err
}

// terms are what the server's settings, as they are in effect there, mean for a run.
type terms struct {
	// ackWait is the shortest time after which an unanswered message is delivered again.
	ackWait time.Duration
	// maxDeliver is the delivery that the server makes last; 0 when there is none.
	maxDeliver int
	// hand bounds the messages in hand, window those asked for at once.
	hand, window int
	// expiry is how long the server keeps a request for messages.
	expiry time.Duration
}

const (
	pullExpiry    = 30 * time.Second
	pullHeartbeat = 5 * time.Second
)

// terms reads the effective settings: defaults and the limits of stream and account are
// filled in by the server, and the first of a BackOff list replaces AckWait.
func (c *Consumer) terms(cfg jetstream.ConsumerConfig) (terms, []string, error) {
	if err := checkConfig(cfg, c.policy.MaxAttempts); err != nil {
		return terms{}, nil, err
	}
	t := terms{ackWait: cfg.AckWait, hand: c.prefetch, expiry: pullExpiry}
	if t.ackWait <= 0 {
		return terms{}, nil, fmt.Errorf("AckWait is %s: messages of a crashed process would never be delivered again; set it above zero", cfg.AckWait)
	}
	var warnings []string
	for i, wait := range cfg.BackOff {
		if i == 0 {
			warnings = append(warnings, "the durable has a BackOff list: it replaces the ack wait and lengthens the delays between attempts; leave it out, the policy paces retries")
		}
		t.ackWait = min(t.ackWait, wait)
	}
	if cfg.MaxDeliver > 0 {
		t.maxDeliver = cfg.MaxDeliver
		warnings = append(warnings, fmt.Sprintf("MaxDeliver is %d: crashes and shutdowns use up deliveries too, and past the last one "+
			"the server gives a message up without a dead letter; leave it unlimited (-1)", cfg.MaxDeliver))
	}
	if cfg.InactiveThreshold > 0 {
		warnings = append(warnings, fmt.Sprintf("InactiveThreshold is %s: the server deletes the durable when no process asks for that long", cfg.InactiveThreshold))
	}
	if cfg.MaxAckPending > 0 {
		t.hand = min(t.hand, cfg.MaxAckPending)
		if busy := c.lanes * c.batch; cfg.MaxAckPending < busy && !(cfg.MaxAckPending == 1 && c.batch == 1) {
			warnings = append(warnings, fmt.Sprintf("MaxAckPending is %d, but %d messages could be worked on at a time: raise it, or lower WithConcurrency or WithBatch", cfg.MaxAckPending, busy))
		}
	}
	t.window = t.hand
	if cfg.MaxRequestBatch > 0 {
		t.window = min(t.window, cfg.MaxRequestBatch)
	}
	if cfg.MaxRequestExpires > 0 {
		t.expiry = min(t.expiry, cfg.MaxRequestExpires)
	}
	return t, warnings, nil
}
