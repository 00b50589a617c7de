//go:build unix

package bench

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/segmentio/kafka-go"
)

type (
	tx    = pgx.Tx
	queue = *pgx.Batch
)

// fetch reads every partition with a reader of its own, as kafkasub does, and nothing else.
func (k *kafkaBench) fetch(b *testing.B, s *span) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, k.partitions)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for partition := range k.partitions {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: k.brokers.Brokers(), Topic: k.many.name, Partition: partition, QueueCapacity: batchSize,
			MinBytes: 1, MaxBytes: 1_000_000, MaxWait: handWait, IsolationLevel: kafka.ReadCommitted,
		})
		wg.Go(func() {
			defer reader.Close()
			for {
				if _, err := reader.FetchMessage(ctx); err != nil {
					ended <- err
					return
				}
				s.begin()
				s.settle(1)
			}
		})
	}
	s.await(b, ended)
}

// handWait is how long a reader waits at the end of a log, and so how long it takes to close it.
const handWait = 250 * time.Millisecond

// handle does the work of one partition until the context ends.
type handle func(ctx context.Context, s *span, r *kafka.Reader, records <-chan kafka.Message) error

// byHand is the loop that people write: a reader of the group, and a goroutine for each partition.
// A committed offset is all that it remembers.
func (k *kafkaBench) byHand(b *testing.B, s *span, topic topicOf, work handle, commitEvery time.Duration) {
	b.Helper()
	clearAll(b, k.pool)
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: k.brokers.Brokers(), GroupID: k.group(), Topic: topic.name, StartOffset: kafka.FirstOffset,
		QueueCapacity: batchSize, MinBytes: 1, MaxBytes: 1_000_000, MaxWait: handWait, CommitInterval: commitEvery,
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1+k.partitions)
	report := func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			ended <- err
		}
	}
	var wg sync.WaitGroup
	lanes := make([]chan kafka.Message, k.partitions)
	for i := range lanes {
		lanes[i] = make(chan kafka.Message, 2*batchSize)
		wg.Go(func() { report(work(ctx, s, r, lanes[i])) })
	}
	wg.Go(func() {
		for {
			record, err := r.FetchMessage(ctx)
			if err != nil {
				report(err)
				return
			}
			s.begin()
			select {
			case lanes[record.Partition] <- record:
			case <-ctx.Done():
				return
			}
		}
	})
	s.await(b, ended)
	cancel()
	wg.Wait()
	if err := r.Close(); err != nil {
		b.Error(err)
	}
	countEffects(b, k.pool, topic.messages)
}

// handleEach makes each message a transaction and commits its offset, at once or in the interval
// of the reader.
func (k *kafkaBench) handleEach(ctx context.Context, s *span, r *kafka.Reader, records <-chan kafka.Message) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case record := <-records:
			err := pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insertEffect, effectID(record.Partition, record.Offset), effectBody(record.Value))
				return err
			})
			if err == nil {
				err = r.CommitMessages(ctx, record)
			}
			if err != nil {
				return err
			}
			s.settle(1)
		}
	}
}

// handleBatches collects messages, inserts their effects with one statement, and commits the
// offset of the last one.
func (k *kafkaBench) handleBatches(ctx context.Context, s *span, r *kafka.Reader, records <-chan kafka.Message) error {
	for batch := make([]kafka.Message, 0, batchSize); ; batch = batch[:0] {
		if batch = collect(ctx, records, batch); len(batch) == 0 {
			return nil
		}
		ids, bodies := make([]int64, len(batch)), make([]string, len(batch))
		for i, record := range batch {
			ids[i], bodies[i] = effectID(record.Partition, record.Offset), effectBody(record.Value)
		}
		_, err := k.pool.Exec(ctx, insertEffects, ids, bodies)
		if err == nil {
			err = r.CommitMessages(ctx, batch[len(batch)-1])
		}
		if err != nil {
			return err
		}
		s.settle(len(batch))
	}
}

// collect fills a batch, which is sent as it is when its first message has waited for the linger. It
// returns an empty one when the context has ended.
func collect[T any](ctx context.Context, from <-chan T, batch []T) []T {
	select {
	case v := <-from:
		batch = append(batch, v)
	case <-ctx.Done():
		return nil
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	for len(batch) < cap(batch) {
		select {
		case v := <-from:
			batch = append(batch, v)
		case <-late.C:
			return batch
		case <-ctx.Done():
			return nil
		}
	}
	return batch
}
