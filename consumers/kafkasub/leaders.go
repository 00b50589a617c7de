package kafkasub

import (
	"context"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go"
)

// leader is a broker that leads partitions, and the line to it alone. So one that does not answer
// holds up the questions about its own partitions and no others.
type leader struct {
	broker kafka.Broker
	*line
}

func (l *lookup) newLeader(b kafka.Broker) *leader {
	n := &leader{broker: b}
	n.line = l.newLine(l.sockets, n.address())
	return n
}

func (n *leader) address() string {
	return net.JoinHostPort(n.broker.Host, strconv.Itoa(n.broker.Port))
}

// askLeader asks the leader of the partition. After an error it is found anew before the next question.
func (l *lookup) askLeader(ctx context.Context, at place, question func(context.Context, *kafka.Client) error) error {
	leader, err := l.leaderOf(ctx, at)
	if err != nil {
		return err
	}
	err = leader.ask(ctx, func(ctx context.Context, client *kafka.Client) error {
		if err := leader.leads(ctx, at, leader.broker.ID); err != nil {
			return err
		}
		return question(ctx, client)
	})
	if err != nil && ctx.Err() == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.leaders[at] == leader {
			delete(l.leaders, at)
		}
	}
	return err
}

func (l *lookup) leaderOf(ctx context.Context, at place) (*leader, error) {
	if leader := l.known(at); leader != nil {
		return leader, nil
	}
	select {
	case l.finding <- struct{}{}:
		defer func() { <-l.finding }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if leader := l.known(at); leader != nil {
		return leader, nil // somebody else has asked meanwhile
	}
	if err := l.anyone.ask(ctx, l.findLeaders); err != nil {
		return nil, err
	}
	if leader := l.known(at); leader != nil {
		return leader, nil
	}
	return nil, kafka.LeaderNotAvailable
}

// leaderFirst puts the leader of the partition before the brokers of the group, where it is known. A
// reader asks them in this order who leads, and goes on to the next one only when a connection fails: one that
// does not answer would hold it up although the leader is well.
func (l *lookup) leaderFirst(at place, brokers []string) []string {
	if leader := l.known(at); leader != nil {
		return append([]string{leader.address()}, brokers...)
	}
	return brokers
}

func (l *lookup) known(at place) *leader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaders[at]
}

// findLeaders learns who leads what. It closes the lines to brokers that lead nothing any more, which
// would be looked for by their clients for ever.
func (l *lookup) findLeaders(ctx context.Context, client *kafka.Client) error {
	l.anyone.hangUp() // or the client answers from what it knows
	res, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: l.topics})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.lines
	l.leaders, l.lines = map[place]*leader{}, map[kafka.Broker]*leader{}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			b := p.Leader
			if b.Host == "" {
				continue // there is none at the moment
			}
			if l.lines[b] == nil {
				if l.lines[b] = before[b]; l.lines[b] == nil {
					l.lines[b] = l.newLeader(b)
				}
				delete(before, b)
			}
			l.leaders[place{t.Name, p.ID}] = l.lines[b]
		}
	}
	for _, leader := range before {
		leader.close()
	}
	return nil
}
