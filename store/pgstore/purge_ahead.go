package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// leastAhead and leastPartitions are how far ahead of now the purger keeps partitions at least.
	leastAhead      = 14 * 24 * time.Hour
	leastPartitions = 4
	// largestRest is the size of the default partition, in bytes, up to which it is looked through for
	// each partition that is made. That takes a second at most.
	largestRest = 32 << 20
)

// makeAhead continues the partitions in the width of the last one, so that a service that is not
// deployed for half a year does not run out of them. How far [Migrate] goes, it leaves to [Migrate].
// Each is made in a transaction of its own, because its lock on the default partition makes
// handlers wait that have marks for there. Where that has grown large, as when nobody has made
// partitions for months, they would wait for long, and the moment is left to a person.
func (w *pass) makeAhead(ctx context.Context) error {
	for {
		var now time.Time
		var from, to *int64
		err := w.s.scanRow(ctx, []any{&now, &from, &to}, w.s.in(`select now(), p.from_ms, p.to_ms
			from (select) one left join (select from_ms, to_ms from {schema}.mark_partitions order by to_ms desc limit 1) p on true`))
		if err != nil || to == nil {
			return err
		}
		w.done.MadeUntil = time.UnixMilli(*to)
		width := time.Duration(*to-*from) * time.Millisecond
		if !w.owner || !w.done.MadeUntil.Before(now.Add(max(leastAhead, leastPartitions*width))) {
			return nil
		}
		if err := w.turn.keep(ctx); err != nil {
			return err
		}
		made := false
		err = w.inTx(ctx, func(tx pgx.Tx) error {
			mine, err := w.excludeMigrate(ctx, tx)
			if err != nil || !mine {
				return err
			}
			var last int64
			if err := tx.QueryRow(ctx, w.s.in("select max(to_ms) from {schema}.mark_partitions")).Scan(&last); err != nil || last != *to {
				return err
			}
			if size, err := w.sizeIn(ctx, tx, &aged{name: "marks_timed_rest"}); err != nil || size > largestRest {
				w.done.RestIsLarge = err == nil
				return err
			}
			made = true
			return migration{schema: w.s.config.schema}.makePartition(ctx, tx, *to, *to+(*to-*from))
		})
		if isLocked(err) || err == nil && !made {
			return nil // somebody is in the way; there is time
		}
		if err != nil {
			return err
		}
		w.done.Made = append(w.done.Made, "marks_timed_"+time.UnixMilli(*to).UTC().Format("20060102t1504"))
	}
}
