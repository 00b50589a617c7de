package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// plain is the consumer that everybody has written: begin, do the work, commit, and let the
// broker know after that. There is a transaction, nothing is acknowledged too early, no
// error is swallowed. It loses nothing. With --naive it stands where the guard was.
type plain struct {
	pool    *pgxpool.Pool
	handle  dedup.TxHandlerFunc[pgx.Tx]
	observe func(context.Context, dedup.Observation)
}

func (p *plain) Process(ctx context.Context, m dedup.Message) dedup.Result {
	began := time.Now()
	r := p.process(ctx, m)
	p.observe(ctx, dedup.Observation{Messages: []dedup.Message{m}, Results: []dedup.Result{r}, Took: time.Since(began)})
	return r
}

func (p *plain) process(ctx context.Context, m dedup.Message) dedup.Result {
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return p.handle(ctx, tx, m) })
	switch {
	case err == nil:
		return dedup.Result{Outcome: dedup.Applied}
	case ctx.Err() != nil:
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: err}
	default:
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultOutage, Err: err}
	}
}

func (p *plain) Bury(_ context.Context, _ dedup.Message, reason error) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultSetup, Err: reason}
}

func (p *plain) Check(ctx context.Context) error { return p.pool.Ping(ctx) }
