package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
)

// Begin implements [store.Marks]. BEGIN and the marks travel in one round trip.
func (s *Store) Begin(ctx context.Context, marks []store.Mark) (store.Unit[pgx.Tx], []store.Status, error) {
	u, statuses, err := s.begin(ctx, marks)
	if err != nil {
		return nil, nil, err
	}
	return u, statuses, nil
}

func (s *Store) begin(ctx context.Context, marks []store.Mark) (*unit, []store.Status, error) {
	return s.beginIn(ctx, mode{keys: true}, marks)
}

func (s *Store) beginIn(ctx context.Context, by mode, marks []store.Mark) (*unit, []store.Status, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("pgstore: begin: %w", err)
	}
	u := &unit{s: s, mode: by, conn: conn}
	b := &pgx.Batch{}
	b.Queue(s.sql.begin)
	statuses, err := u.open(ctx, b, nil, marks)
	if err != nil {
		return nil, nil, err
	}
	return u, statuses, nil
}

// unit is one transaction after another on one connection of the pool.
type unit struct {
	s    *Store
	mode mode
	conn *pgxpool.Conn // nil once the unit has ended
	tx   *lentTx
}

// open sends the batch with the marks added, and reads their statuses. The results that
// come before that of BEGIN go to former. An error ends the unit.
func (u *unit) open(ctx context.Context, b *pgx.Batch, former func(sent) error, marks []store.Mark) ([]store.Status, error) {
	m := &marking{s: u.s, mode: u.mode, marks: marks}
	m.queue(b)
	results := u.send(ctx, b)
	committing := former != nil
	err := func() error {
		if committing {
			if err := former(results); err != nil {
				return err
			}
			committing = false
		}
		if _, err := results.Exec(); err != nil {
			return err
		}
		return m.read(results)
	}()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if u.s.isLate(err) && !committing {
		m, err = u.openCarefully(ctx, marks)
	}
	if err == nil {
		err = m.settle(ctx, u.conn)
	}
	if err != nil {
		u.abandon(ctx)
		return nil, fmt.Errorf("pgstore: begin and mark: %w", u.s.own(err))
	}
	u.tx = &lentTx{conn: u.conn.Conn()}
	return m.status, nil
}

// openCarefully begins once more, after a mark of a time that was removed.
func (u *unit) openCarefully(ctx context.Context, marks []store.Mark) (*marking, error) {
	// On its own: nothing can be prepared in a transaction that has failed.
	if _, err := u.conn.Exec(ctx, "rollback"); err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	b.Queue(u.s.sql.begin)
	m := &marking{s: u.s, mode: u.mode, marks: marks, careful: true}
	m.queue(b)
	results := u.send(ctx, b)
	err := func() error {
		if _, err := results.Exec(); err != nil {
			return err
		}
		return m.read(results)
	}()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return m, err
}

func (u *unit) Tx() pgx.Tx { return u.tx }

// Commit implements [store.Unit].
func (u *unit) Commit(ctx context.Context) (store.End, error) {
	if end, err := u.ready(ctx); err != nil {
		return end, err
	}
	end, err := u.commit(ctx)
	u.finish()
	return end, err
}

// Next implements [store.Unit]: COMMIT, BEGIN and the marks travel in one round trip.
func (u *unit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	if end, err := u.ready(ctx); err != nil {
		return end, nil, err
	}
	if err := u.mode.check(marks); err != nil {
		u.abandon(ctx)
		return store.RolledBack, nil, err
	}
	if u.tx.real != nil {
		// pgx's own transaction has to commit, so that it knows that it is closed.
		if end, err := u.commit(ctx); err != nil {
			u.finish()
			return end, nil, err
		}
		u.tx = nil
		b := &pgx.Batch{}
		b.Queue(u.s.sql.begin)
		statuses, err := u.open(ctx, b, nil, marks)
		return store.Committed, statuses, err
	}
	return u.commitAndOpen(ctx, &pgx.Batch{}, marks)
}

// commitAndOpen sends what the batch holds, which is the last of the open transaction, then
// COMMIT, BEGIN and the marks.
func (u *unit) commitAndOpen(ctx context.Context, b *pgx.Batch, marks []store.Mark) (store.End, []store.Status, error) {
	u.tx.ended = true
	queued := b.Len()
	b.Queue("commit")
	b.Queue(u.s.sql.begin)
	var end store.End
	var commitErr error
	statuses, err := u.open(ctx, b, func(results sent) error {
		end, commitErr = results.readCommit(queued)
		return commitErr
	}, marks)
	if end != store.Committed {
		return end, nil, commitErr
	}
	return end, statuses, err
}

// ready refuses to commit what cannot be committed, while it is still certain that COMMIT
// was not sent.
func (u *unit) ready(ctx context.Context) (store.End, error) {
	if u.conn == nil {
		return store.RolledBack, fmt.Errorf("pgstore: commit: %w", store.ErrEnded)
	}
	pg := u.conn.Conn().PgConn()
	var end store.End
	var err error
	switch {
	case u.tx.refused != nil:
		end, err = store.RolledBack, fmt.Errorf("the handler passed over an error: %w", u.tx.refused)
	case u.tx.outOfTime():
		end, err = store.RolledBack, errOutOfTime
	case pg.IsClosed():
		end, err = store.RolledBack, errConnectionLost
	case pg.IsBusy():
		end, err = store.RolledBack, errors.New("the handler left rows of a query unread and unclosed")
	case pg.TxStatus() == 'E':
		// The server would answer ROLLBACK. A handler that wants to go on after a failed
		// statement puts a savepoint around it.
		end, err = store.RolledBack, fmt.Errorf("the handler passed over the error of a statement: %w", pgx.ErrTxCommitRollback)
	case pg.TxStatus() == 'I':
		end, err = store.Unknown, fmt.Errorf("the handler has ended it: %w", store.ErrTxControl)
	default:
		return 0, nil
	}
	u.abandon(ctx)
	return end, fmt.Errorf("pgstore: commit: %w", err)
}

func (u *unit) commit(ctx context.Context) (store.End, error) {
	u.tx.ended = true
	if u.tx.real != nil {
		err := u.tx.real.Commit(ctx)
		if err == nil {
			return store.Committed, nil
		}
		if errors.Is(err, pgx.ErrTxCommitRollback) {
			return store.RolledBack, fmt.Errorf("pgstore: commit: %w", err)
		}
		return endOf(pgconn.CommandTag{}, err)
	}
	tag, err := u.conn.Exec(ctx, "commit")
	return endOf(tag, err)
}

// Fault implements [store.Unit]. A lost connection is an outage whatever error the handler
// made of it. A deadline of the handler's own closes the connection as well and is not,
// nor is a batch with an argument that cannot be encoded.
func (u *unit) Fault(err error) store.Fault {
	var setup *setupError
	if errors.As(err, &setup) {
		return store.FaultSetup
	}
	if f := u.s.serverFault(err); f != 0 {
		return f
	}
	var batch pgx.ErrPreprocessingBatch
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &batch) && !isConnectionError(err):
	case u.conn != nil && u.tx.outOfTime():
	case u.conn != nil && u.conn.Conn().IsClosed():
		return store.FaultOutage
	}
	return store.FaultHandler
}

// Rollback implements [store.Unit]. It does not use up the caller's context, which may be
// what ended the work.
func (u *unit) Rollback(ctx context.Context) error {
	u.abandon(ctx)
	return nil
}

var (
	errConnectionLost = errors.New("the connection was lost before COMMIT was sent")
	errOutOfTime      = errors.New("the handler passed over a statement whose deadline passed, which closes the connection")
)

const rollbackLimit = 5 * time.Second

// abandon undoes what is open and gives the connection back. Where the server does not
// answer in time the connection is closed, which undoes it too.
func (u *unit) abandon(ctx context.Context) {
	if u.conn == nil {
		return
	}
	conn := u.conn.Conn()
	// A savepoint that was kept must be closed, also where the handler has ended what it lay in.
	hasReal := u.tx != nil && u.tx.real != nil
	if pg := conn.PgConn(); !pg.IsClosed() && (hasReal || pg.IsBusy() || pg.TxStatus() != 'I') {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		if pg.IsBusy() {
			_ = conn.Close(limited)
		} else if hasReal {
			_ = u.tx.real.Rollback(limited) // closes the connection where it fails
		} else if _, err := conn.Exec(limited, "rollback"); err != nil {
			_ = conn.Close(limited)
		}
	}
	u.finish()
}

// finish gives the connection back. The pool destroys one that is closed or in the
// middle of a transaction.
func (u *unit) finish() {
	if u.tx != nil {
		u.tx.ended = true
	}
	u.conn.Release()
	u.conn = nil
}
