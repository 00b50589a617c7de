//go:build unix

package bench

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// open makes a durable and hands what it brings to the function, on one goroutine of the client's.
func (n *natsBench) open(b *testing.B, stream string, take func(jetstream.Msg)) (closed func()) {
	b.Helper()
	cfg := n.durable()
	durable := must(n.js.CreateConsumer(context.Background(), stream, cfg))(b)
	consuming := must(durable.Consume(take, jetstream.PullMaxMessages(2*batchSize)))(b)
	return func() {
		consuming.Stop()
		<-consuming.Closed()
		n.forget(b, stream, cfg.Durable)
	}
}

// fetch acknowledges what comes, without waiting for an answer, and does nothing else: what is
// not acknowledged would stop the server from sending more.
func (n *natsBench) fetch(b *testing.B, s *span) {
	b.Helper()
	ended := make(chan error, 1)
	closed := n.open(b, "many", func(m jetstream.Msg) {
		s.begin()
		if err := m.Ack(); err != nil {
			select {
			case ended <- err:
			default:
			}
		}
		s.settle(1)
	})
	defer closed()
	s.await(b, ended)
}

// natsHandle does the work of one handler until the context ends.
type natsHandle func(ctx context.Context, s *span, messages <-chan jetstream.Msg) error

// byHand is the loop that people write, without any deduplication.
func (n *natsBench) byHand(b *testing.B, s *span, stream string, messages int, work natsHandle) {
	b.Helper()
	clearAll(b, n.pool)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, n.handlers)
	line := make(chan jetstream.Msg, 2*batchSize)
	var wg sync.WaitGroup
	for range n.handlers {
		wg.Go(func() {
			if err := work(ctx, s, line); err != nil && !errors.Is(err, context.Canceled) {
				ended <- err
			}
		})
	}
	closed := n.open(b, stream, func(m jetstream.Msg) {
		s.begin()
		select {
		case line <- m:
		case <-ctx.Done():
		}
	})
	s.await(b, ended)
	cancel()
	wg.Wait()
	closed()
	countEffects(b, n.pool, messages)
}

func confirmed(m jetstream.Msg) error { return m.DoubleAck(context.Background()) }

// handleEach makes each message a transaction and acknowledges it.
func (n *natsBench) handleEach(ack func(jetstream.Msg) error) natsHandle {
	return func(ctx context.Context, s *span, messages <-chan jetstream.Msg) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case m := <-messages:
				meta, err := m.Metadata()
				if err != nil {
					return err
				}
				err = pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, insertEffect, int64(meta.Sequence.Stream), effectBody(m.Data()))
					return err
				})
				if err == nil {
					err = ack(m)
				}
				if err != nil {
					return err
				}
				s.settle(1)
			}
		}
	}
}

// handleBatches collects messages, inserts their effects with one statement, and acknowledges
// each without waiting for an answer.
func (n *natsBench) handleBatches(ctx context.Context, s *span, messages <-chan jetstream.Msg) error {
	for batch := make([]jetstream.Msg, 0, batchSize); ; batch = batch[:0] {
		if batch = collect(ctx, messages, batch); len(batch) == 0 {
			return nil
		}
		ids, bodies := make([]int64, len(batch)), make([]string, len(batch))
		for i, m := range batch {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			ids[i], bodies[i] = int64(meta.Sequence.Stream), effectBody(m.Data())
		}
		if _, err := n.pool.Exec(ctx, insertEffects, ids, bodies); err != nil {
			return err
		}
		for _, m := range batch {
			if err := m.Ack(); err != nil {
				return err
			}
		}
		s.settle(len(batch))
	}
}
