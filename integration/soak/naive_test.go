//go:build unix

package soak

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// naive is wired as it must not be, in one of two ways that are often met. It knows no kinds of
// messages and writes no events.
type naive struct {
	*dedup.TxGuard[pgx.Tx] // around nothing
	clerk                  *clerk
	pool                   *pgxpool.Pool
	mode                   mode
}

func newNaive(o orders, s *pgstore.Store, c *clerk, pool *pgxpool.Pool) (naive, error) {
	nothing := func(context.Context, pgx.Tx, dedup.Message) error { return nil }
	var marks store.Marks[pgx.Tx] = s
	if fences(o.Group) {
		marks = s.Fenced()
	}
	g, err := dedup.NewTx(marks, o.Group, dedup.FromCoordinates(), marksKept, nothing)
	return naive{g, c, pool, o.Mode}, err
}

// naiveSchema is where it notes what is done.
const naiveSchema = "create table done (id text primary key);"

func (n naive) Process(ctx context.Context, m dedup.Message) dedup.Result {
	r := n.process(ctx, m)
	n.clerk.journal.results([]dedup.Message{m}, []dedup.Result{r})
	return r
}

func (n naive) ProcessEach(ctx context.Context, ms []dedup.Message) (results []dedup.Result) {
	for _, m := range ms {
		r := n.Process(ctx, m)
		if results = append(results, r); !r.Outcome.Settled() {
			break
		}
	}
	return results
}

func (n naive) process(ctx context.Context, m dedup.Message) dedup.Result {
	if n.mode == acksEarly {
		go func() {
			time.Sleep(50 * time.Millisecond) // as it would wait in a queue in memory
			_ = n.effect(ctx, m)              // whom could it tell?
		}()
		return dedup.Result{Outcome: dedup.Applied}
	}
	if n.Fenced() {
		err := n.effect(ctx, m)
		if err != nil {
			return n.failed(err)
		}
		return n.TxGuard.Process(ctx, m) // the position moves behind the effect
	}
	id := idOf(m)
	var done bool
	err := n.pool.QueryRow(ctx, "select exists (select from done where id = $1)", id).Scan(&done)
	if done {
		return dedup.Result{Outcome: dedup.Duplicate}
	}
	if err == nil {
		err = n.effect(ctx, m)
	}
	if err == nil {
		_, err = n.pool.Exec(ctx, "insert into done (id) values ($1) on conflict do nothing", id)
	}
	if err != nil {
		return n.failed(err)
	}
	return dedup.Result{Outcome: dedup.Applied}
}

func (n naive) failed(err error) dedup.Result {
	switch {
	case errors.Is(err, context.Canceled):
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: err}
	default:
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultOutage, Err: err}
	}
}

func (n naive) effect(ctx context.Context, m dedup.Message) (err error) {
	msg, err := parse(m.Body)
	if err != nil {
		return err
	}
	if n.Fenced() {
		msg = atPlace(m.Position, msg)
	}
	n.clerk.journal.begin(msg.ID)
	defer func() { n.clerk.journal.end(msg.ID, err) }()
	_, err = n.pool.Exec(ctx, take, msg.ID, msg.Key, msg.N, m.Position.Partition, m.Position.Offset, n.clerk.child)
	if err == nil && msg.Kind == killer {
		err = n.clerk.die(ctx, msg.ID) // at the worst of moments
	}
	return err
}
