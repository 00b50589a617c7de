package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// savepoint is pgx's own, whose statements are looked at like those of the transaction that it lies in: they
// could end that one, and a deadline that passes in one of them closes the same connection.
type savepoint struct {
	pgx.Tx
	in *lentTx
}

func (s savepoint) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := s.in.usable(ctx, ""); err != nil {
		return nil, err
	}
	inner, err := s.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return savepoint{inner, s.in}, nil
}

func (s savepoint) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := s.in.usable(ctx, sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	return s.Tx.Exec(ctx, sql, args...)
}

func (s savepoint) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := s.in.usable(ctx, sql); err != nil {
		return answerAll(err).Query()
	}
	return s.Tx.Query(ctx, sql, args...)
}

func (s savepoint) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := s.in.usable(ctx, sql); err != nil {
		return answerAll(err).QueryRow()
	}
	return s.Tx.QueryRow(ctx, sql, args...)
}

func (s savepoint) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := s.in.usableFor(ctx, b); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return s.Tx.SendBatch(ctx, b)
}

func (s savepoint) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := s.in.usable(ctx, ""); err != nil {
		return 0, err
	}
	return s.Tx.CopyFrom(ctx, table, columns, src)
}

func (s savepoint) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := s.in.usable(ctx, sql); err != nil {
		return nil, err
	}
	return s.Tx.Prepare(ctx, name, sql)
}
