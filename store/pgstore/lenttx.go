package pgstore

import (
	"context"
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
	return tx.real.Begin(ctx)
}

// LargeObjects gives access to large objects in this transaction.
func (tx *lentTx) LargeObjects() pgx.LargeObjects {
	if err := tx.makeReal(context.Background()); err != nil {
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
	if tx.ended {
		return pgx.ErrTxClosed
	}
	if tx.real == nil {
		tx.real, err = tx.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: ";"})
	}
	return err
}

func (tx *lentTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if tx.ended {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return tx.conn.Exec(ctx, sql, args...)
}

func (tx *lentTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if tx.ended {
		return closed().Query()
	}
	return tx.conn.Query(ctx, sql, args...)
}

func (tx *lentTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if tx.ended {
		return closed().QueryRow()
	}
	return tx.conn.QueryRow(ctx, sql, args...)
}

func (tx *lentTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if tx.ended {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	// Results that have failed beforehand are the only way to see whether the batch would
	// begin a transaction of its own, and with it get the right to end ours.
	if refused := pgx.FailedBatchResults(b, fmt.Errorf("pgstore: begin: %w", store.ErrTxControl)); refused.Tx() != nil {
		return refused
	}
	return tx.conn.SendBatch(ctx, b)
}

func (tx *lentTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if tx.ended {
		return 0, pgx.ErrTxClosed
	}
	return tx.conn.CopyFrom(ctx, table, columns, src)
}

func (tx *lentTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if tx.ended {
		return nil, pgx.ErrTxClosed
	}
	return tx.conn.Prepare(ctx, name, sql)
}

// Conn returns the connection, for what a transaction has no method for. Ending the
// transaction through it is noticed and reported, but cannot be undone.
func (tx *lentTx) Conn() *pgx.Conn { return tx.conn }

// closed answers every query with what pgx says of a transaction that has ended.
func closed() pgx.BatchResults { return pgx.FailedBatchResults(&pgx.Batch{}, pgx.ErrTxClosed) }
