package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/store"
)

// lentTx is the transaction that a handler works with. It is not pgx's own, because that
// one begins with a round trip of its own and would let the handler commit. It delegates to
// the connection until the unit ends and refuses everything afterwards.
type lentTx struct {
	conn  *pgx.Conn
	ended bool
	// real is pgx's own transaction on top of ours, made when somebody needs a savepoint or
	// large objects, which only it can give. It then ends the transaction too, so that
	// what was taken from it is closed as well.
	real pgx.Tx
	// last is the context of the last statement that was sent.
	last context.Context
	// refused is the error of a statement that would have ended the transaction.
	refused error
}

var _ pgx.Tx = (*lentTx)(nil)

// Commit is refused: the guard commits when the handler returns nil.
func (tx *lentTx) Commit(context.Context) error {
	return fmt.Errorf("pgstore: commit: %w", store.ErrTxControl)
}

// Rollback is refused: the guard rolls back when the handler returns an error. After the
// end it says what pgx says, so that a deferred rollback stays harmless.
func (tx *lentTx) Rollback(context.Context) error {
	if tx.ended {
		return pgx.ErrTxClosed
	}
	return fmt.Errorf("pgstore: rollback: %w", store.ErrTxControl)
}

// Begin starts a savepoint. The first one of a transaction costs one round trip more.
func (tx *lentTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := tx.makeReal(ctx); err != nil {
		return nil, err
	}
	inner, err := tx.real.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return savepoint{inner, tx}, nil
}

// LargeObjects gives access to large objects in this transaction.
func (tx *lentTx) LargeObjects() pgx.LargeObjects {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackLimit)
	defer cancel()
	if err := tx.makeReal(ctx); err != nil {
		// There is no error to return here; a closed transaction's answers each call with one.
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		return pgx.FailedBatchResults(b, err).Tx().LargeObjects()
	}
	return tx.real.LargeObjects()
}

// makeReal lets pgx begin a transaction whose BEGIN is an empty statement, inside the one
// that is open.
func (tx *lentTx) makeReal(ctx context.Context) (err error) {
	if err := tx.usable(ctx, ""); err != nil {
		return err
	}
	if tx.real == nil {
		tx.real, err = tx.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: ";"})
	}
	return err
}

func (tx *lentTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := tx.usable(ctx, sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.conn.Exec(ctx, sql, args...)
}

func (tx *lentTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := tx.usable(ctx, sql); err != nil {
		return answerAll(err).Query()
	}
	return tx.conn.Query(ctx, sql, args...)
}

func (tx *lentTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := tx.usable(ctx, sql); err != nil {
		return answerAll(err).QueryRow()
	}
	return tx.conn.QueryRow(ctx, sql, args...)
}

func (tx *lentTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := tx.usableFor(ctx, b); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return tx.conn.SendBatch(ctx, b)
}

func (tx *lentTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := tx.usable(ctx, ""); err != nil {
		return 0, err
	}
	return tx.conn.CopyFrom(ctx, table, columns, src)
}

func (tx *lentTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := tx.usable(ctx, sql); err != nil {
		return nil, err
	}
	return tx.conn.Prepare(ctx, name, sql)
}

// Conn returns the connection, for what a transaction has no method for. Ending the
// transaction through it is noticed and reported, but cannot be undone, and where a new one is open
// afterwards it is not even noticed. It must not be kept: after the end the connection is somebody else's.
func (tx *lentTx) Conn() *pgx.Conn { return tx.conn }

// usable refuses a transaction that has ended, and one that the handler has ended itself with
// SQL of its own: what came now would take effect at once, outside of any transaction. It refuses a text
// that would do that.
func (tx *lentTx) usable(ctx context.Context, sql string) error {
	switch {
	case endsTx(sql):
		// ROLLBACK AND CHAIN would leave a transaction open in which nothing of this one is. A handler
		// that passes over the error has meant what it said, so it is not committed either.
		tx.refused = fmt.Errorf("pgstore: %.40q: %w", sql, store.ErrTxControl)
		return tx.refused
	case tx.ended:
		return pgx.ErrTxClosed
	case tx.conn.PgConn().TxStatus() == 'I':
		return fmt.Errorf("pgstore: the handler has ended the transaction: %w", store.ErrTxControl)
	}
	if !tx.conn.IsClosed() {
		tx.last = ctx
	}
	return nil
}

// usableFor is usable for all that a batch holds.
func (tx *lentTx) usableFor(ctx context.Context, b *pgx.Batch) error {
	if err := tx.usable(ctx, ""); err != nil {
		return err
	}
	if beginsTx(b) {
		return fmt.Errorf("pgstore: begin: %w", store.ErrTxControl)
	}
	for _, query := range b.QueuedQueries {
		if err := tx.usable(ctx, query.SQL); err != nil {
			return err
		}
	}
	return nil
}

// outOfTime tells a connection that pgx closed because a statement's deadline had passed from
// one that was lost. A context that was merely canceled says nothing: that is what a deferred
// cancel leaves behind.
func (tx *lentTx) outOfTime() bool {
	return tx.conn.IsClosed() && tx.last != nil && errors.Is(tx.last.Err(), context.DeadlineExceeded)
}

// answerAll answers every query with an error.
func answerAll(err error) pgx.BatchResults { return pgx.FailedBatchResults(&pgx.Batch{}, err) }
