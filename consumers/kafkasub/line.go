package kafkasub

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// lineSlots is how many questions may be under way on a line.
const lineSlots = 4

// line is a way to brokers that has its own connections and its own places for questions.
type line struct {
	transport *kafka.Transport
	client    *kafka.Client
	timeout   time.Duration
	slots     chan struct{} // taken by questions: each one under way has a connection of its own
	cut       context.CancelFunc
}

func (l *lookup) newLine(s *sockets, brokers ...string) *line {
	ctx, cut := context.WithCancel(s.ctx)
	dialLimit := l.timeout // nobody waits for the first answer any longer, which it includes
	if limit := l.dialer.Timeout; limit > 0 {
		dialLimit = min(dialLimit, limit)
	}
	t := &kafka.Transport{
		Dial:           s.transportDial(l.dialer),
		ClientID:       l.dialer.ClientID,
		SASL:           l.dialer.SASLMechanism,
		DialTimeout:    dialLimit,
		MetadataTopics: l.topics,
		Context:        ctx,
	}
	return &line{
		transport: t,
		client:    &kafka.Client{Addr: kafka.TCP(brokers...), Transport: t},
		timeout:   l.timeout,
		slots:     make(chan struct{}, lineSlots),
		cut:       cut,
	}
}

// close ends the line. What is asked afterwards gets an error at once.
func (n *line) close() {
	n.cut()
	n.hangUp()
}

// hangUp makes the next question begin with new connections and fresh metadata.
func (n *line) hangUp() { n.transport.CloseIdleConnections() }

// ask asks one question, within the group's network timeout. After an error the next one begins
// with fresh metadata: a leader may have moved, or a topic come into being.
func (n *line) ask(ctx context.Context, question func(context.Context, *kafka.Client) error) error {
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	err := question(limited, n.client)
	if err != nil && ctx.Err() == nil { // whoever has stopped asking says nothing about the broker
		n.hangUp()
	}
	return err
}

// leads returns an error unless the broker of the line is the leader in its own eyes. Otherwise the
// client would carry the question to another one, and hold a slot of this line while that does not answer.
func (n *line) leads(ctx context.Context, at place, broker int) error {
	// The transport answers this from what it has learnt with its first connection.
	res, err := n.transport.RoundTrip(ctx, n.client.Addr, &metadata.Request{TopicNames: []string{at.topic}})
	if err != nil {
		return err
	}
	for _, t := range res.(*metadata.Response).Topics {
		if t.ErrorCode != 0 {
			return fmt.Errorf("topic %q: %w", t.Name, kafka.Error(t.ErrorCode))
		}
		for _, p := range t.Partitions {
			if int(p.PartitionIndex) == at.partition && int(p.LeaderID) == broker {
				return nil
			}
		}
	}
	return kafka.NotLeaderForPartition
}
