package natssub

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/dedup"
)

// RequireKeep makes Run return an error where the stream keeps its messages for longer than the
// processor keeps its marks ([dedup.Keeper]), or where that cannot be found out. Without this
// option there is a warning.
func RequireKeep() Option { return option(func(c *config) { c.requireKeep = true }) }

// surveyLimit bounds the question about the stream: what a client may not ask is not refused, it is
// never answered.
const surveyLimit = 2 * time.Second

// survey looks at the stream before anything is fetched from it. A client that may use the
// durable need not be allowed to ask about the stream.
func (c *Consumer) survey(ctx context.Context, durable *jetstream.ConsumerInfo) error {
	ctx, cancel := context.WithTimeout(ctx, surveyLimit)
	defer cancel()
	stream, err := c.js.Stream(ctx, c.stream)
	if err != nil {
		return c.keepUnknown(fmt.Errorf("the stream cannot be looked at: %w", err))
	}
	info := stream.CachedInfo()
	at, last := durable.Delivered, info.State.LastSeq
	if at.Stream > last || at.Stream == 0 && at.Consumer > 0 {
		// Coordinates hold the time of storing, so what comes now is not taken for a duplicate.
		c.log.Warn("the stream counts from its beginning again: it was made again or has lost messages that the durable had delivered, and "+
			"publishers may have been told that they were stored", "delivered", at.Consumer, "delivered_up_to", at.Stream, "stream_ends_at", last)
	}
	return c.checkKeep(info.Config)
}

// checkKeep compares how long marks and messages are kept. A stream can be replayed, by a durable
// that is made again for instance, as far back as it reaches, and what is older than the marks
// can then not be told from what is new. Streams that forget what is acknowledged cannot be replayed.
func (c *Consumer) checkKeep(cfg jetstream.StreamConfig) error {
	keep := c.keep()
	if cfg.Retention != jetstream.LimitsPolicy || cfg.MaxAge > 0 && cfg.MaxAge <= keep || keep == dedup.Forever {
		return nil
	}
	age := "without a limit"
	if cfg.MaxAge > 0 {
		age = "for " + cfg.MaxAge.String()
	}
	return c.keepTooShort(fmt.Errorf("marks are kept for %s and the stream keeps messages %s: of what is replayed from before the marks nobody can "+
		"tell whether it was done; keep the marks for longer, or give the stream a MaxAge of %s or less", keep, age, keep))
}

// keep is how long the processor keeps its marks; one that does not tell is taken at its word.
func (c *Consumer) keep() time.Duration {
	if k, ok := c.processor.(dedup.Keeper); ok {
		return k.Keep()
	}
	return dedup.Forever
}

func (c *Consumer) keepUnknown(err error) error {
	if c.keep() == dedup.Forever {
		c.log.Info(err.Error())
		return nil
	}
	return c.keepTooShort(fmt.Errorf("marks are kept for %s, and whether that is as long as the stream keeps messages is not known: %w", c.keep(), err))
}

// keepTooShort returns the error where the user asked for it, and otherwise warns.
func (c *Consumer) keepTooShort(err error) error {
	if c.requireKeep {
		return err
	}
	c.log.Warn(err.Error())
	return nil
}
