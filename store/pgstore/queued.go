package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// Queued is the store for handlers that queue their statements instead of running them:
// they are given a [pgx.Batch], and what they queue travels together with COMMIT and
// with the next message's BEGIN and mark. A message then costs one round trip, and a batch
// of messages two.
//
// A handler that must see a result before it goes on needs the [Store] itself. Functions
// set on a queued query (its Exec, Query and QueryRow) are called and their errors fail the
// message; a transaction that has one costs a round trip more, because COMMIT then waits
// for them. What is queued must not end the transaction; a statement that would is refused,
// unless it stands behind another one in the same text.
//
// What is queued runs while the guard waits for COMMIT, within its limit (dedup.WithCommitLimit). A
// message whose statements take longer than that is unknown each time, as in an outage: it is neither
// done nor given up, and what comes behind it in its partition waits. A batch is a transaction, so the limit
// holds for the statements of all its messages together. Give the store a [WithStatementLimit] below the
// commit limit, so that a statement that hangs fails its message instead; and let handlers that work for
// seconds have the [Store].
type Queued struct{ *Store }

var (
	_ store.Marks[*pgx.Batch]  = Queued{}
	_ store.Burier[*pgx.Batch] = Queued{}
)

// Queued returns the view of the store for handlers that queue.
func (s *Store) Queued() Queued { return Queued{s} }

// Begin implements [store.Marks].
func (q Queued) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*pgx.Batch], []store.Status, error) {
	u, statuses, err := q.begin(ctx, marks)
	if err != nil {
		return nil, nil, err
	}
	return &queuedUnit{u, &pgx.Batch{}}, statuses, nil
}

// BuryTx implements [store.Burier].
func (q Queued) BuryTx(_ context.Context, b *pgx.Batch, d store.DeadLetter) error {
	sql, args := q.bury(d)
	b.Queue(sql, args...)
	return nil
}

type queuedUnit struct {
	*unit
	b *pgx.Batch
}

func (u *queuedUnit) Tx() *pgx.Batch { return u.b }

// Commit implements [store.Unit].
func (u *queuedUnit) Commit(ctx context.Context) (store.End, error) {
	if end, err := u.ready(ctx); err != nil {
		return end, err
	}
	b, err := u.flush(ctx)
	if err != nil {
		u.abandon(ctx)
		return endOfUncommitted(err)
	}
	u.tx.ended = true
	queued := b.Len()
	b.Queue("commit")
	results := u.send(ctx, b)
	end, err := results.readCommit(queued)
	_ = results.Close() // its error is the one that has just been read
	u.abandon(ctx)
	return end, err
}

// Next implements [store.Unit].
func (u *queuedUnit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	if end, err := u.ready(ctx); err != nil {
		return end, nil, err
	}
	if err := u.mode.check(marks); err != nil {
		u.abandon(ctx)
		return store.RolledBack, nil, err
	}
	b, err := u.flush(ctx)
	if err != nil {
		u.abandon(ctx)
		end, err := endOfUncommitted(err)
		return end, nil, err
	}
	return u.commitAndOpen(ctx, b, marks)
}

// flush takes what was queued. It sends it at once where a function waits for a result:
// behind COMMIT, the function's error would come too late to undo anything.
func (u *queuedUnit) flush(ctx context.Context) (*pgx.Batch, error) {
	b := u.b
	u.b = &pgx.Batch{}
	if beginsTx(b) {
		return nil, store.ErrTxControl
	}
	waits := false
	for _, query := range b.QueuedQueries {
		// Behind a queued ROLLBACK, COMMIT would be answered with COMMIT and nothing would be stored.
		if endsTx(query.SQL) {
			return nil, fmt.Errorf("%w: %q is queued", store.ErrTxControl, query.SQL)
		}
		waits = waits || query.Fn != nil
	}
	if waits {
		return &pgx.Batch{}, u.conn.SendBatch(ctx, b).Close()
	}
	return b, nil
}
