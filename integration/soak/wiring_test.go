//go:build unix

package soak

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// boxSchema is where what is stored first lies.
const boxSchema = "soak_box"

// guard is around the work of a group's messages.
func (o orders) guard(s *pgstore.Store, c *clerk) (*dedup.TxGuard[pgx.Tx], error) {
	var marks store.Marks[pgx.Tx] = s
	key, opts := dedup.FromHeader(idHeader), []dedup.TxOption{dedup.WithCommitLimit(commitLimit)}
	switch o.Group {
	case fenced:
		if marks = s.FencedMarks(); o.Mode == keepsNoKeys {
			marks = s.Fenced()
		}
	case placed:
		marks, key = s.Fenced(), dedup.FromCoordinates()
	case parking:
		if o.Mode != parksNothing {
			opts = append(opts, dedup.WithParking(orderOf))
		}
	}
	if o.Mode == together {
		return dedup.NewTxBatch(marks, o.Group, key, marksKept, c.handleAll, opts...)
	}
	return dedup.NewTx(marks, o.Group, key, marksKept, c.handle, opts...)
}

// consume is what a process of a group does.
func (o orders) consume(ctx context.Context, s *pgstore.Store, pool *pgxpool.Pool, c client, log *slog.Logger) error {
	j, err := openJournal(o.Journal)
	if err != nil {
		return err
	}
	w, err := outbox.NewWriter(s)
	if err != nil {
		return err
	}
	outside, err := o.pool(ctx)
	if err != nil {
		return err
	}
	defer outside.Close()
	work := &clerk{child: o.Name, group: o.Group, journal: j, outbox: w, outside: outside}
	if o.Mode == marksOutside || o.Mode == acksEarly {
		n, err := newNaive(o, s, work, pool)
		if err != nil {
			return err
		}
		return c.consume(ctx, n, log)
	}
	g, err := o.guard(s, work)
	if err != nil {
		return err
	}
	if o.Group == stored {
		return o.storeFirst(ctx, g, j, pool, c, log)
	}
	return c.consume(ctx, recording{TxGuard: g, journal: j}, log)
}

// storeFirst takes messages in and does the work of what has been taken in, side by side.
func (o orders) storeFirst(ctx context.Context, work dedup.Processor, j journal, pool *pgxpool.Pool, c client, log *slog.Logger) error {
	box, err := pgstore.New(pool, pgstore.WithSchema(boxSchema), pgstore.WithLockWait(lockWait))
	if err != nil {
		return err
	}
	opts := []inbox.Option{
		inbox.WithConcurrency(6), inbox.WithLimit(5 * time.Second), inbox.WithLogger(log),
		inbox.WithIntake(dedup.WithCommitLimit(commitLimit)),
		inbox.WithRelay(outbox.WithName(o.Name), outbox.WithPoll(100*time.Millisecond), outbox.WithLease(2*time.Second),
			outbox.WithProbe(50*time.Millisecond, 500*time.Millisecond), outbox.WithDrain(2*time.Second),
			outbox.WithRetry(outbox.Retry{MaxAttempts: policy.MaxAttempts, MinDelay: policy.MinDelay, MaxDelay: policy.MaxDelay})),
	}
	if o.Mode != storesLoose {
		opts = append(opts, inbox.WithOrder(orderOf))
	}
	in, err := inbox.New(box, stored, dedup.FromHeader(idHeader), marksKept, work, opts...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var intake, done error
	var running sync.WaitGroup
	running.Go(func() {
		defer cancel()
		intake = c.consume(ctx, recording{TxGuard: in.Intake(), journal: j, handler: true}, log)
	})
	running.Go(func() {
		defer cancel()
		done = in.Run(ctx)
	})
	running.Wait()
	return errors.Join(intake, done)
}
