//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

func (b *kafkaBroker) receipts(ctx context.Context, g *group) (all []receipt, err error) {
	list, err := b.read(ctx, g.receipts(), receiptLanes)
	for _, m := range list {
		if err == nil {
			all, err = addReceipt(all, header(m.Headers), m.Value, fmt.Sprintf("%d/%d %s", m.Partition, m.Offset, m.Time.Format("05.000")))
		}
	}
	return all, err
}

// read is everything that is in a topic, one partition after another.
func (b *kafkaBroker) read(ctx context.Context, topic string, partitions int) ([]kafka.Message, error) {
	ends, err := b.ends(ctx, topic, partitions)
	if err != nil {
		return nil, err
	}
	lists, errs := make([][]kafka.Message, partitions), make([]error, partitions)
	var running sync.WaitGroup
	for p, end := range ends {
		running.Go(func() {
			r := kafka.NewReader(kafka.ReaderConfig{Brokers: b.brokers(), Topic: topic, Partition: p, MaxBytes: 1 << 20, MaxWait: time.Second})
			defer func() { errs[p] = errors.Join(errs[p], r.Close()) }()
			for next := int64(0); next < end; {
				m, err := r.ReadMessage(ctx)
				if err != nil {
					errs[p] = err
					return
				}
				next, lists[p] = m.Offset+1, append(lists[p], m)
			}
		})
	}
	running.Wait()
	return slices.Concat(lists...), errors.Join(errs...)
}

func addReceipt(all []receipt, eventID string, body []byte, at string) ([]receipt, error) {
	m, err := parse(body)
	if err != nil {
		return all, fmt.Errorf("event %s: %w", eventID, err)
	}
	return append(all, receipt{eventID, m, at}), nil
}

func header(hs []kafka.Header) string {
	for _, h := range hs {
		if h.Key == "id" {
			return string(h.Value)
		}
	}
	return ""
}
