package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// drop drops empty partitions, all under one lock of the whole table. The default partition and each
// of them are then taken without waiting: whoever uses one through the table is out already, and
// for anybody else the handlers shall not wait as well. [Migrate] takes the same two in the other
// order and is kept out.
func (w *pass) drop(ctx context.Context, empty []aged) error {
	if len(empty) == 0 {
		return nil
	}
	// More savepoints than that would be slow for everybody; the others have time.
	empty = empty[:min(len(empty), 50)]
	var dropped, locked []string
	err := w.inTx(ctx, func(tx pgx.Tx) error {
		dropped, locked = nil, nil
		if mine, err := w.excludeMigrate(ctx, tx); err != nil || !mine {
			return err
		}
		for _, sql := range []string{
			"lock table only " + w.s.schema + ".marks_timed in access exclusive mode",
			"lock table only " + w.s.schema + ".marks_timed_rest in access exclusive mode nowait",
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		for i := range empty {
			a := &empty[i]
			switch gone, err := w.dropOne(ctx, tx, a); {
			case isLocked(err):
				locked = append(locked, a.name)
			case err != nil:
				return fmt.Errorf("partition %s: %w", a.name, err)
			case gone:
				dropped = append(dropped, a.name)
			}
		}
		return nil
	})
	if isLocked(err) {
		for i := range empty {
			w.done.Locked = append(w.done.Locked, empty[i].name)
		}
		return nil
	}
	if err == nil {
		w.done.Dropped, w.done.Locked = append(w.done.Dropped, dropped...), append(w.done.Locked, locked...)
	}
	return err
}

// dropOne drops a partition unless somebody has filled it since it was emptied. Its savepoint keeps
// the transaction whole where the partition is in use.
func (w *pass) dropOne(ctx context.Context, tx pgx.Tx, a *aged) (gone bool, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if !a.missing {
			if _, err := tx.Exec(ctx, "lock table only "+a.table(w.s)+" in access exclusive mode nowait"); err != nil {
				return err
			}
			if size, err := w.sizeIn(ctx, tx, a); err != nil || size > 0 {
				return err
			}
			if _, err := tx.Exec(ctx, "drop table "+a.table(w.s)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, w.s.in("delete from {schema}.mark_partitions where name = $1"), a.name)
		gone = err == nil
		return err
	})
	return gone, err
}

// inTx runs fn in a transaction of READ COMMITTED, in which no lock is waited for longer than
// the limit: whatever is asked under a lock must be seen as it is then.
func (w *pass) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	conn, err := w.s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("set local lock_timeout = %d", w.c.lockWait.Milliseconds())); err != nil {
			return err
		}
		return fn(tx)
	})
}

func (w *pass) excludeMigrate(ctx context.Context, tx pgx.Tx) (mine bool, err error) {
	err = tx.QueryRow(ctx, "select pg_try_advisory_xact_lock($1)", migration{schema: w.s.config.schema}.lockKey()).Scan(&mine)
	return mine, err
}

// isLocked: a lock could not be had in time.
func isLocked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}
