package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/store"
)

// sent is a batch on its way.
type sent struct {
	pgx.BatchResults
	// refused: pgx did not send it (an argument cannot be encoded, a statement cannot be
	// prepared). The connection is in order, and nothing of the batch has reached the server.
	refused bool
}

// send sends a batch. What is on its way keeps the connection busy until it is read.
func (u *unit) send(ctx context.Context, b *pgx.Batch) sent {
	results := u.conn.SendBatch(ctx, b)
	pg := u.conn.Conn().PgConn()
	return sent{results, !pg.IsBusy() && !pg.IsClosed()}
}

// readCommit reads the results of a number of statements and that of the COMMIT behind them.
func (s sent) readCommit(queued int) (store.End, error) {
	for range queued {
		if _, err := s.Exec(); err != nil {
			return s.endOf(pgconn.CommandTag{}, err)
		}
	}
	return s.endOf(s.Exec())
}

func (s sent) endOf(tag pgconn.CommandTag, err error) (store.End, error) {
	if s.refused && err != nil {
		return endOfUncommitted(err)
	}
	return endOf(tag, err)
}

// endOf reads the answer to COMMIT. An ERROR of the server is certain: the transaction is
// undone (a deferred constraint, a serialisation failure). So is an error before
// anything was sent, and so is 25P03: the server ends a session for being idle only where
// it has read no further command. Any other FATAL, PANIC, a lost connection and a
// deadline are not: the record may have been written.
func endOf(tag pgconn.CommandTag, err error) (store.End, error) {
	var pg *pgconn.PgError
	var unsent pgx.ErrPreprocessingBatch
	switch {
	case err == nil && tag.String() == "COMMIT":
		return store.Committed, nil
	case err == nil:
		return store.RolledBack, fmt.Errorf("pgstore: commit: the server answered %s: %w", tag, pgx.ErrTxCommitRollback)
	case errors.As(err, &pg) && (isPlainError(pg) || pg.Code == "25P03"), errors.As(err, &unsent), pgconn.SafeToRetry(err):
		return store.RolledBack, fmt.Errorf("pgstore: commit: %w", err)
	default:
		return store.Unknown, fmt.Errorf("pgstore: commit: the answer did not come: %w", err)
	}
}

// endOfUncommitted is the end where a statement failed before COMMIT was sent.
func endOfUncommitted(err error) (store.End, error) {
	return store.RolledBack, fmt.Errorf("pgstore: run what was queued: %w", err)
}

// isPlainError: the session goes on. The other form of the severity is in the server's language.
func isPlainError(pg *pgconn.PgError) bool {
	if pg.SeverityUnlocalized != "" {
		return pg.SeverityUnlocalized == "ERROR"
	}
	return pg.Severity == "ERROR"
}
