//go:build unix

package soak

import (
	"context"
	"fmt"

	"github.com/semel-dev/semel/dedup"
)

// A group that has positions and no keys has an effect for every record of the log, copies included. To it each record is a
// message of its own, called by its place, and those of a partition have an order.

// atPlace is a message as such a group sees it.
func atPlace(p dedup.Position, m message) message {
	m.ID, m.Key, m.N, m.Lane = placeName(p), fmt.Sprintf("ordered-by-%d", p.Partition), int(p.Offset)+1, p.Partition
	if m.Kind == nameless {
		m.Kind = plain // its place is its name
	}
	return m
}

func placeName(p dedup.Position) string { return fmt.Sprintf("at-%d/%d", p.Partition, p.Offset) }

// placed reads the log for what must have had an effect.
func (b *kafkaBroker) placed(ctx context.Context) (expected, error) {
	want := expected{consumer: placed, messages: map[string]message{}, keys: map[string]dedup.Key{}}
	list, err := b.read(ctx, kafkaTopic, lanes)
	if err != nil {
		return want, err
	}
	for _, r := range list {
		m, err := parse(r.Value)
		if err != nil {
			return want, err
		}
		p := dedup.Position{Broker: "kafka", Log: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time}
		m = atPlace(p, m)
		if want.keys[m.ID], err = dedup.FromCoordinates()(dedup.Message{Position: p}); err != nil {
			return want, err
		}
		want.messages[m.ID] = m
	}
	return want, nil
}
