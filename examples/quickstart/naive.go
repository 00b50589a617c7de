package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// plain is the consumer that everybody has written: begin, do the work, commit, and let the
// broker know after that. There is a transaction, nothing is acknowledged too early, no
// error is swallowed. It loses nothing. With --naive it stands where the guard was.
type plain struct {
	pool   *pgxpool.Pool
	handle dedup.TxHandlerFunc[pgx.Tx]
}

func (p *plain) Process(ctx context.Context, m dedup.Message) dedup.Result {
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

func (p *plain) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	var rs []dedup.Result
	for _, m := range ms {
		rs = append(rs, p.Process(ctx, m))
		if !rs[len(rs)-1].Outcome.Settled() {
			break
		}
	}
	return rs
}

func (p *plain) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return p.ProcessEach(ctx, ms)
}

func (p *plain) Bury(_ context.Context, _ dedup.Message, reason error) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultSetup, Err: reason}
}

func (p *plain) Check(ctx context.Context) error { return p.pool.Ping(ctx) }
