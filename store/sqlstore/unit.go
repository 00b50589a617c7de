package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// Begin implements [store.Marks].
func (s *Store) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*sql.Tx], []store.Status, error) {
	u, statuses, err := s.begin(ctx, mode{keys: true}, marks)
	if err != nil {
		return nil, nil, err
	}
	return u, statuses, nil
}

func (s *Store) begin(ctx context.Context, by mode, marks []store.Mark) (*unit, []store.Status, error) {
	u, err := s.open(ctx, s.config.isolation)
	if err != nil {
		return nil, nil, fmt.Errorf("sqlstore: begin: %w", s.own(ctx, err))
	}
	u.mode = by
	statuses, err := u.mark(ctx, marks)
	if err != nil {
		return nil, nil, err
	}
	return u, statuses, nil
}

// staleConnections is how many connections that turn out to be dead are taken one after another: a
// server that restarts leaves a pool full of them. A transaction in which nothing was done yet may
// begin again anywhere.
const staleConnections = 3

// open begins a transaction.
func (s *Store) open(ctx context.Context, isolation sql.IsolationLevel) (*unit, error) {
	for tries := 1; ; tries++ {
		conn, err := s.acquire(ctx)
		if err != nil {
			return nil, err
		}
		u := &unit{s: s, isolation: isolation, conn: conn}
		if err = u.begin(ctx); err == nil {
			return u, nil
		}
		u.abandon()
		if !errors.Is(err, driver.ErrBadConn) || tries == staleConnections {
			return nil, err
		}
	}
}

// unit is one transaction after another on one connection.
type unit struct {
	s         *Store
	mode      mode
	isolation sql.IsolationLevel
	conn      *sql.Conn // nil once the unit has ended
	tx        *sql.Tx   // nil where BEGIN has failed
	// cancel ends the context that tx was begun with, which interrupts a COMMIT or ROLLBACK that is
	// under way; they take no context of their own.
	cancel context.CancelFunc
	// xact is the server's number of the transaction, "" where nothing of ours was written in it.
	xact string
}

// begin begins a transaction that outlives the caller's context: database/sql would roll it
// back the moment that one ends, and what COMMIT had done by then could not be known.
func (u *unit) begin(ctx context.Context) error {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err := u.conn.BeginTx(lasting, &sql.TxOptions{Isolation: u.isolation})
	u.tx, u.cancel, u.xact = tx, cancel, ""
	if !stop() && err == nil {
		err = context.Canceled
	}
	if err != nil {
		return ended(ctx, err)
	}
	return nil
}

// mark sets marks in the transaction. An error ends the unit.
func (u *unit) mark(ctx context.Context, marks []store.Mark) ([]store.Status, error) {
	m := &marking{s: u.s, mode: u.mode, marks: marks}
	if err := m.set(ctx, u.tx); err != nil {
		err = u.s.own(ctx, err)
		u.abandon()
		return nil, fmt.Errorf("sqlstore: begin and mark: %w", err)
	}
	u.xact = m.xact
	return m.status, nil
}

func (u *unit) Tx() *sql.Tx { return u.tx }

// Commit implements [store.Unit].
func (u *unit) Commit(ctx context.Context) (store.End, error) {
	end, err := u.commit(ctx)
	if u.conn != nil {
		u.release(end != store.Unknown)
	}
	return end, err
}

// Next implements [store.Unit].
func (u *unit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	end, err := u.commit(ctx)
	if err != nil {
		if u.conn != nil {
			u.release(end != store.Unknown)
		}
		return end, nil, err
	}
	u.cancel()
	if err := u.begin(ctx); err != nil {
		err = u.s.own(ctx, err)
		u.abandon()
		return end, nil, fmt.Errorf("sqlstore: begin: %w", err)
	}
	statuses, err := u.mark(ctx, marks)
	return end, statuses, err
}

// Rollback implements [store.Unit]. It does not use the caller's context, which may be
// what ended the work.
func (u *unit) Rollback(context.Context) error {
	u.abandon()
	return nil
}

const rollbackLimit = 5 * time.Second

// abandon undoes what is open and gives the connection back. Where the server does not
// answer in time the connection is closed, which undoes it too.
func (u *unit) abandon() {
	if u.conn == nil {
		return
	}
	clean := false
	if u.tx != nil {
		limit := time.AfterFunc(rollbackLimit, u.cancel)
		err := u.tx.Rollback()
		limit.Stop()
		clean = err == nil || errors.Is(err, sql.ErrTxDone)
	}
	u.release(clean)
}

// release gives the connection back, or closes it where nobody can say in which state it is.
func (u *unit) release(clean bool) {
	u.cancel()
	if !clean {
		_ = u.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = u.conn.Close()
	u.conn = nil
}
