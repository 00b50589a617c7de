//go:build unix

package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// contendLimit bounds how long the rows are held, tries how often: the process that works at REPEATABLE READ may be
// away for a while.
const (
	contendLimit = 10 * time.Second
	contendTries = 5
)

// contend changes the rows that the handlers share, until one that works at REPEATABLE READ waits for them, and commits:
// it must get a serialisation failure (40001). Those that wait for too long meanwhile are busy (55P03).
func (c *chaos) contend(ctx context.Context) error {
	for range contendTries {
		before, err := c.groups[0].ledger.look()
		if err != nil {
			return err
		}
		if err := until(ctx, c.holdTills); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		err = c.await(limited, func() bool { return c.groups[0].ledger.conflicts() > before.Serialisation })
		cancel()
		if err == nil || c.done() {
			return nil
		}
	}
	return nil // whether there were any is for the verdict to say
}

func (c *chaos) holdTills(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, contendLimit+5*time.Second)
	defer cancel()
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update "+payments+".tills set sum = sum"); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, contendLimit)
		defer cancel()
		err := until(limited, func(ctx context.Context) error {
			var waiters int
			err := c.pool.QueryRow(ctx, `select count(*) from pg_stat_activity
				where application_name = $1 and wait_event_type = 'Lock' and query like 'update tills%'`, orders{Group: payments, Mode: together}.application()).Scan(&waiters)
			if err == nil && waiters == 0 && !c.done() {
				err = fmt.Errorf("no %s consumer waits", together)
			}
			return err
		})
		if limited.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	})
}
