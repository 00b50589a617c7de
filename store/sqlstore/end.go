package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// commit ends the transaction. Where it never sends COMMIT, it rolls back and ends the unit.
func (u *unit) commit(ctx context.Context) (store.End, error) {
	if u.conn == nil {
		return store.RolledBack, fmt.Errorf("sqlstore: commit: %w", store.ErrEnded)
	}
	if end, err := u.ready(ctx); err != nil {
		u.abandon()
		return end, fmt.Errorf("sqlstore: commit: %w", err)
	}
	stop := context.AfterFunc(ctx, u.cancel)
	err := u.tx.Commit()
	stop()
	return endOf(ctx, err)
}

// ready asks the server, in the same session, whether the transaction is still the one in which the
// marks were set, and whether it can be committed. That costs a round trip. It is the only way to
// know: a handler may have run "rollback" as a statement, and the COMMIT after it succeeds, as one of
// nothing; the message would be acknowledged and lost. And whatever fails here has failed
// while it was certain that COMMIT was not sent.
func (u *unit) ready(ctx context.Context) (store.End, error) {
	if err := ctx.Err(); err != nil {
		return store.RolledBack, err
	}
	wasLost := u.isLost() // before this statement can find it out
	result, err := u.tx.ExecContext(ctx, u.question())
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return store.Unknown, fmt.Errorf("the handler has ended it: %w", store.ErrTxControl)
	case err != nil:
		return store.RolledBack, u.whyNotReady(ctx, err, wasLost)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return store.RolledBack, fmt.Errorf("the driver does not count rows: %w", err)
	}
	if n != 1 {
		return store.Unknown, fmt.Errorf("the handler has ended it with a statement of its own: %w", store.ErrTxControl)
	}
	return 0, nil
}

// question has one row where the answer is yes. It has no arguments, so that it is not
// prepared, and travels once.
//
// Where nothing of ours was written, there is no number yet; then it is enough that a transaction is
// open that began before this statement, as one does that consists of this statement alone not.
func (u *unit) question() string {
	if u.xact == "" {
		return "select where now() < statement_timestamp()"
	}
	return "select where pg_current_xact_id_if_assigned()::text = '" + u.xact + "'"
}

// whyNotReady explains an error from before COMMIT.
func (u *unit) whyNotReady(ctx context.Context, err error, wasLost bool) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx, err)
	case sqlState(err) == "25P02":
		// A handler that wants to go on after a failed statement puts a savepoint around it.
		return fmt.Errorf("the handler passed over the error of a statement: %w", err)
	case sqlState(err) != "":
		return err
	case wasLost, errors.Is(err, driver.ErrBadConn) && !u.isLost():
		// Most likely a deadline of its own. Were it an outage, the message would come for ever.
		return &markedError{fmt.Errorf("the handler passed over an error that cost the connection, or left rows of a query unread: %w", err), store.FaultHandler}
	}
	return &markedError{fmt.Errorf("the connection was lost before COMMIT was sent: %w", err), store.FaultOutage}
}

// isLost asks the driver whether it has lost the connection. [driver.ErrBadConn] alone does not say
// so: pgx, which cannot be asked, has it for a statement that comes while rows are unread, and for
// every statement after the one whose deadline has passed. The error that says how a connection was lost
// is another one there.
func (u *unit) isLost() bool {
	lost := false
	_ = u.conn.Raw(func(c any) error {
		v, ok := c.(driver.Validator)
		lost = ok && !v.IsValid()
		return nil
	})
	return lost
}

// endOf reads the answer to COMMIT. An ERROR of the server is certain: the transaction is
// undone (a deferred constraint, a serialisation failure). Anything else is not: the record may
// have been written.
func endOf(ctx context.Context, err error) (store.End, error) {
	switch {
	case err == nil:
		return store.Committed, nil
	case isRefusal(sqlState(err)):
		return store.RolledBack, fmt.Errorf("sqlstore: commit: %w", err)
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return store.Unknown, fmt.Errorf("sqlstore: commit: the handler has ended it: %w", store.ErrTxControl)
	case ctx.Err() != nil:
		return store.Unknown, fmt.Errorf("sqlstore: commit: the answer did not come: %w", ended(ctx, err))
	}
	err = fmt.Errorf("sqlstore: commit: the answer did not come: %w", err)
	if sqlState(err) == "" {
		err = &markedError{err, store.FaultOutage}
	}
	return store.Unknown, err
}

// isRefusal tells the codes with which the server refuses to commit, and goes on. The severity would
// say it, but database/sql does not hand it on, so those are left out that also come when a
// session or the server ends: 25P03 is the exception, because a session is ended for being idle
// only where it has read no further command.
func isRefusal(code string) bool {
	if len(code) != 5 {
		return false
	}
	switch code {
	case "57014", "25P03":
		return true
	case "25P04", "40003":
		return false
	}
	switch code[:2] {
	case "08", "53", "57", "58", "XX":
		return false
	}
	return true
}

// Fault implements [store.Unit]. It goes by the error that the handler returns, and no further:
// database/sql does not tell a lost connection from one that was closed because a deadline of the
// handler's own has passed. A handler that makes an error of its own of a lost connection uses up
// an attempt.
func (u *unit) Fault(err error) store.Fault {
	var marked *markedError
	if errors.As(err, &marked) {
		return marked.fault
	}
	if f := pgsql.Fault(sqlState(err)); f != 0 {
		return f
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, driver.ErrBadConn):
		if u.conn != nil && u.isLost() {
			return store.FaultOutage
		}
	case isConnectionError(err):
		return store.FaultOutage
	}
	return store.FaultHandler
}
